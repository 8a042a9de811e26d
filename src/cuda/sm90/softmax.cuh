// Softmax of the rows that a warpgroup's thread has a part in, block after block, in powers of 2.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>
#include <cstdint>
#include <type_traits>

namespace polyhead::cuda::sm90 {

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T>
__device__ inline std::uint32_t pack(float low, float high) {
  std::uint32_t packed;
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// The four threads that share a row.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// What the light statistics need of a thread's two rows, beyond the softmax itself. In units of powers of 2, as all
// here.
struct RowRecords {
  float log_sum[2] = {0, 0};               // this thread's part of sum_j e_j log2(e_j)
  float best[2] = {-INFINITY, -INFINITY};  // the largest score of the row, before the scale
  int best_key[2] = {INT_MAX, INT_MAX};    // and its key, if this thread has it

  // Does any row of the warp reach a new maximum, or its old one again? top: this thread's largest scores of the block.
  __device__ bool reached(const float (&top)[2]) const {
    return __any_sync(~0u, (top[0] >= best[0] && top[0] > -INFINITY) || (top[1] >= best[1] && top[1] > -INFINITY));
  }
  // Finds the keys of those maxima. Blocks come from the last key to the first, so that of equal scores a later one has
  // the lower key. first_key: the key of this thread's first column.
  template <int kCount>
  __device__ void record(const float (&s)[kCount], const float (&row_top)[2], int first_key) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool reached = row_top[r] >= best[r] && row_top[r] > -INFINITY;
      if (!__any_sync(~0u, reached)) continue;
      int column = -1;
#pragma unroll
      for (int j = kCount - 4; j >= 0; j -= 4) {
#pragma unroll
        for (int e = 1; e >= 0; --e) column = s[j + 2 * r + e] == row_top[r] ? 2 * j + e : column;
      }
      if (reached) {
        best[r] = row_top[r];
        best_key[r] = column < 0 ? INT_MAX : first_key + column;
      }
    }
  }
  __device__ int row_key(int r) const {
    const int key = min(best_key[r], __shfl_xor_sync(~0u, best_key[r], 1));
    return min(key, __shfl_xor_sync(~0u, key, 2));
  }
};

struct NoRecords {};

// Two rows of a thread. Weights are e = 2^(s - reference). The reference trails the true maximum by up to kSlack, which
// costs nothing (weights up to 2^kSlack) and saves most rescaling of what was summed before.
template <bool kStatistics>
struct RowPair {
  static constexpr float kSlack = 8;

  float reference[2] = {-1e30f, -1e30f};  // finite, so that a row that sees nothing sums to 0
  float sum[2] = {0, 0};                  // this thread's part of it
  [[no_unique_address]] std::conditional_t<kStatistics, RowRecords, NoRecords> records;

  // s [kCount]: scores of the block as wgmma leaves them; replaced by weights. With kPlain none of them is -inf.
  // Returns whether earlier sums, the output's among them, must be multiplied by `factor`.
  template <bool kPlain, int kCount>
  __device__ bool absorb(float (&s)[kCount], float scale, int first_key, float (&factor)[2]) {
    float top[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most[4] = {s[2 * r], s[2 * r + 1], s[2 * r + 4], s[2 * r + 5]};
#pragma unroll
      for (int j = 8; j < kCount; j += 4) {
        most[(j / 4 % 2) * 2] = fmaxf(most[(j / 4 % 2) * 2], s[j + 2 * r]);
        most[(j / 4 % 2) * 2 + 1] = fmaxf(most[(j / 4 % 2) * 2 + 1], s[j + 2 * r + 1]);
      }
      top[r] = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
    }
    bool grown = false;
    if constexpr (kStatistics) {
      // The reference is never above a row's maximum, so what grows past it is a new maximum.
      if (records.reached(top)) {
        top[0] = quad_max(top[0]);
        top[1] = quad_max(top[1]);
        records.record(s, top, first_key);
        grown = outgrown(top, scale);
      }
    } else {
      grown = outgrown(top, scale);
    }
    if (grown) raise(top, scale, factor);
    exponentiate<kPlain>(s, scale);
    return grown;
  }

 private:
  __device__ bool outgrown(const float (&top)[2], float scale) const {
    return __any_sync(~0u, top[0] * scale > reference[0] + kSlack || top[1] * scale > reference[1] + kSlack);
  }

  // Makes the rows' maxima the references.
  __device__ void raise(const float (&top)[2], float scale, float (&factor)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float now = fmaxf(reference[r], quad_max(top[r]) * scale);
      factor[r] = exp2_fast(reference[r] - now);
      if constexpr (kStatistics) {
        records.log_sum[r] = factor[r] * (records.log_sum[r] + (reference[r] - now) * sum[r]);
      }
      sum[r] *= factor[r];
      reference[r] = now;
    }
  }

  template <bool kPlain, int kCount>
  __device__ void exponentiate(float (&s)[kCount], float scale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float part[2] = {0, 0}, logs[2] = {0, 0};
#pragma unroll
      for (int j = 0; j < kCount; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[j + 2 * r + e];
          float power = fmaf(x, scale, -reference[r]);
          if constexpr (kStatistics && !kPlain) power = fmaxf(power, -200.f);  // 0 times its logarithm is 0
          x = exp2_fast(power);
          part[e] += x;
          if constexpr (kStatistics) logs[e] = fmaf(x, power, logs[e]);
        }
      }
      sum[r] += part[0] + part[1];
      if constexpr (kStatistics) records.log_sum[r] += logs[0] + logs[1];
    }
  }
};

}  // namespace polyhead::cuda::sm90
