// The running softmax of a tile's rows during a walk over the keys.
#pragma once

#include "cuda/portable/head.cuh"

namespace polyhead::cuda::portable {

// The running softmax of a thread's four rows: m is the row's maximum, l the thread's share of the row's sum.
struct RunningSoftmax {
  float m[4], l[4];

  // A sink is one more logit, which the row's first thread counts.
  __device__ explicit RunningSoftmax(const Head& head) {
    const bool counts = head.has_sink() && threadIdx.x % 16 == 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      m[r] = head.sink;
      l[r] = counts ? 1.0f : 0.0f;
    }
  }

  // s <- e^(s - m) with the new m; alpha is what all earlier sums are multiplied by.
  __device__ void add(float (&s)[4][4], float (&alpha)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float here = fmaxf(fmaxf(s[r][0], s[r][1]), fmaxf(s[r][2], s[r][3]));
      const float larger = fmaxf(m[r], row_max(here));
      const float base = larger == kNegativeInfinity ? 0.0f : larger;
      alpha[r] = m[r] == larger ? 1.0f : expf(m[r] - larger);
      m[r] = larger;
      float sum = 0;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        s[r][c] = expf(s[r][c] - base);
        sum += s[r][c];
      }
      l[r] = fmaf(l[r], alpha[r], sum);
    }
  }

  // l becomes the sum of the whole row.
  __device__ void finish() {
#pragma unroll
    for (int r = 0; r < 4; ++r) l[r] = row_sum(l[r]);
  }
  __device__ float lse(int r) const { return m[r] + logf(l[r]); }
};

}  // namespace polyhead::cuda::portable
