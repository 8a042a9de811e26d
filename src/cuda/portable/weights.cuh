// Softmax weights on request: a first walk over the keys finds the softmax's sum, a second one writes. Rows are all, or
// chosen ones in the caller's order.
#pragma once

#include "cuda/portable/softmax.cuh"

namespace polyhead::cuda::portable {

// Passed by value, so that nothing of the host is read later.
struct Chosen {
  static constexpr int kMost = 256;
  int count = 0;
  bool in_order = true;  // n is n + base, whatever `index` says
  int base = 0;          // the place of the first among the weights
  std::int32_t index[kMost] = {};
};

__global__ void __launch_bounds__(kThreads)
    weights_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ Strided weights, int columns,
                   const __grid_constant__ Chosen heads, const __grid_constant__ Chosen rows, int tiles) {
  __shared__ Shared sm;
  const BlockPlace place(1, tiles, heads.count);
  const Head head(a, place.n, heads.in_order ? heads.base + place.h : heads.index[place.h]);
  const backend::Sequence& sequence = head.sequence;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  // Row r of the tile as a query of the sequence, which may be none of it.
  const auto query_of = [&](int r) -> std::int64_t {
    const int n = place.tile * kTile + r;
    if (n >= rows.count) return -1;
    if (rows.in_order) return n;
    const std::int64_t i = rows.index[n] - sequence.query_begin;
    return i < sequence.rows ? i : -1;
  };
  if (threadIdx.x < kTile) sm.rows[threadIdx.x] = head.row(query_of(threadIdx.x));

  RunningSoftmax softmax(head);
  float p[4][4], slopes[4][4], alpha[4];
  for (std::int64_t j0 = 0; j0 < sequence.keys; j0 += kTile) {
    head.logits(sm, static_cast<int>(j0), p, slopes);
    softmax.add(p, alpha);
  }
  softmax.finish();
  for (std::int64_t column = 0; column < columns; column += kTile) {
    const int j0 = static_cast<int>(column - sequence.weights_column);
    head.logits(sm, j0, p, slopes);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const std::int64_t i = query_of(4 * ty + r);
      if (i < 0 || i >= sequence.rows) continue;
      const std::int64_t line = rows.in_order ? sequence.query_begin + i : rows.base + place.tile * kTile + 4 * ty + r;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t to = column + tx + 16 * c;
        if (to >= columns) continue;
        const float weight = p[r][c] == kNegativeInfinity ? 0.0f : expf(p[r][c] - softmax.m[r]) / softmax.l[r];
        store(weights.data, weights.dtype, weights.at(sequence.batch, heads.base + place.h, line, to), weight);
      }
    }
  }
}

}  // namespace polyhead::cuda::portable
