// Softmax of the rows that a warpgroup's thread has a part in, block after block, in powers of 2.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>
#include <cstdint>
#include <type_traits>

#include "cuda/device/mma.cuh"
#include "cuda/device/quad.cuh"
#include "cuda/device/wgmma.cuh"

namespace polyhead::cuda::sm90 {

using device::exp2_of;
using device::log2_of;
using device::pack_operand;
using device::quad_max;
using device::quad_sum;

template <class T>
__device__ inline float2 widen(std::uint32_t pair) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  }
}

// Thread c of a row's four holds columns 2c, 2c+1 (low) and 8+2c, 8+2c+1 (high) of 16. Neighbours trade, so that each
// writes 8 bytes and the four fill a sector: thread c writes columns 4 (c/2) + 8 (c%2) on.
template <class T>
__device__ inline void store_pair(T* to, int thread, bool exists, std::uint32_t low, std::uint32_t high) {
  const bool odd = thread % 2 != 0;
  const std::uint32_t theirs = __shfl_xor_sync(~0u, odd ? low : high, 1);
  const uint2 mine = odd ? uint2{theirs, high} : uint2{low, theirs};
  if (exists) *reinterpret_cast<uint2*>(to + thread % 4 / 2 * 4 + (odd ? 8 : 0)) = mine;
}

// What statistics need of a thread's two rows, beyond the softmax itself. In powers of 2, like everything here.
struct RowRecords {
  float log_sum[2] = {0, 0};               // this thread's part of sum_j e_j log2(e_j)
  float distance[2] = {0, 0};              // of sum_j e_j |p - j|, for the full set alone
  float marked[2] = {0, 0};                // of sum_j e_j over the marked keys, for the full set alone
  float best[2] = {-INFINITY, -INFINITY};  // the largest score of the row, before the scale
  int best_key[2] = {INT_MAX, INT_MAX};    // and its key, if this thread has it

  // Does any row of the warp reach a new maximum, or its old one again? top: this thread's largest scores of the block.
  __device__ bool reached(const float (&top)[2]) const {
    return __any_sync(~0u, (top[0] >= best[0] && top[0] > -INFINITY) || (top[1] >= best[1] && top[1] > -INFINITY));
  }
  // Finds the keys of those maxima among the scores s of a block. Blocks come from the last key to the first, so that
  // of equal scores the one that comes later has the lower key. Without branches, so that it fills the units that the
  // exponentials leave idle.
  template <int kCount>
  __device__ void record(const float (&s)[kCount], const float (&top)[2], int first_key) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int column[2] = {INT_MAX, INT_MAX};  // of the first half and the second
#pragma unroll
      for (int j = kCount / 2 - 4; j >= 0; j -= 4) {
#pragma unroll
        for (int e = 1; e >= 0; --e) {
          column[0] = s[j + 2 * r + e] == top[r] ? 2 * j + e : column[0];
          column[1] = s[j + kCount / 2 + 2 * r + e] == top[r] ? 2 * j + kCount + e : column[1];
        }
      }
      const float most = quad_max(top[r]);
      if (most >= best[r] && most > -INFINITY) {
        best[r] = most;
        best_key[r] = top[r] == most ? first_key + min(column[0], column[1]) : INT_MAX;
      }
    }
  }
  // e: weights of a block. away[r]: how far this thread's first column lies before the row's position.
  template <int kCount>
  __device__ void add_distances(const float (&e)[kCount], const float (&away)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float part[2] = {0, 0};
#pragma unroll
      for (int j = 0; j < kCount; j += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) part[c] = fmaf(e[j + 2 * r + c], fabsf(away[r] - (2 * j + c)), part[c]);
      }
      distance[r] += part[0] + part[1];
    }
  }
  // bits[i]: the marks of columns 32 i on, counted from this thread's first.
  template <int kCount>
  __device__ void add_marked(const float (&e)[kCount], const std::uint32_t (&bits)[kCount / 16]) {
#pragma unroll
    for (int j = 0; j < kCount; j += 4) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if ((bits[j / 16] >> (2 * j % 32 + c) & 1) == 0) continue;
        marked[0] += e[j + c];
        marked[1] += e[j + 2 + c];
      }
    }
  }
  // Rescales the sums so far, for the reference has moved.
  __device__ void rescale(int r, float factor, float moved, float sum) {
    log_sum[r] = factor * (log_sum[r] + moved * sum);
    distance[r] *= factor;
    marked[r] *= factor;
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
  float sum[2] = {0, 0};                  // this thread's part of the sum of weights
  [[no_unique_address]] std::conditional_t<kStatistics, RowRecords, NoRecords> records;

  // s [kCount]: scores of the block as wgmma leaves them; replaced by weights. With kPlain none of them is -inf.
  // Returns whether earlier sums, the output's among them, must be multiplied by `factor`.
  template <bool kPlain, int kCount>
  __device__ bool absorb(float (&s)[kCount], float scale, int first_key, float (&factor)[2]) {
    float top[2];
    if (may_be_negative()) {
      top[0] = largest(s, 0);
      top[1] = largest(s, 1);
    } else {
      top[0] = largest_if_positive(s, 0);
      top[1] = largest_if_positive(s, 1);
    }
    const bool grown = outgrown(top, scale);
    if (grown) raise(top, scale, factor);
    if constexpr (kStatistics) {
      if (records.reached(top)) {
        records.record(s, top, first_key);
        exponentiate<kPlain>(s, scale);
      } else {
        exponentiate<kPlain>(s, scale);
      }
    } else {
      exponentiate<kPlain>(s, scale);
    }
    return grown;
  }

 private:
  // This thread's largest score of row r.
  template <int kCount>
  __device__ static float largest(const float (&s)[kCount], int r) {
    float most[4] = {s[2 * r], s[2 * r + 1], s[2 * r + 4], s[2 * r + 5]};
#pragma unroll
    for (int j = 8; j < kCount; j += 4) {
      most[(j / 4 % 2) * 2] = fmaxf(most[(j / 4 % 2) * 2], s[j + 2 * r]);
      most[(j / 4 % 2) * 2 + 1] = fmaxf(most[(j / 4 % 2) * 2 + 1], s[j + 2 * r + 1]);
    }
    return fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
  }
  // The same if it is positive, otherwise one of the negative scores. As integers, floats that are not negative have
  // the order of their values and are above all others, and three integers are compared at once.
  template <int kCount>
  __device__ static float largest_if_positive(const float (&s)[kCount], int r) {
    int most[4];
#pragma unroll
    for (int j = 0; j < kCount; j += 4) {
      const int low = __float_as_int(s[j + 2 * r]), high = __float_as_int(s[j + 2 * r + 1]);
      int& so_far = most[j / 4 % 4];
      so_far = j < 16 ? max(low, high) : __vimax3_s32(so_far, low, high);
    }
    return __int_as_float(max(__vimax3_s32(most[0], most[1], most[2]), most[3]));
  }

  // Whether a negative score may outgrow a row's reference, or be the best of a row, somewhere in the warp.
  __device__ bool may_be_negative() const {
    bool may = reference[0] < -kSlack || reference[1] < -kSlack;
    if constexpr (kStatistics) may |= records.best[0] < 0 || records.best[1] < 0;
    return __any_sync(~0u, may);
  }
  __device__ bool outgrown(const float (&top)[2], float scale) const {
    return __any_sync(~0u, top[0] * scale > reference[0] + kSlack || top[1] * scale > reference[1] + kSlack);
  }

  // Makes the rows' maxima the references.
  __device__ void raise(const float (&top)[2], float scale, float (&factor)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float now = fmaxf(reference[r], quad_max(top[r]) * scale);
      factor[r] = exp2_of(reference[r] - now);
      if constexpr (kStatistics) records.rescale(r, factor[r], reference[r] - now, sum[r]);
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
          x = exp2_of(power);
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
