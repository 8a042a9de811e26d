// What the rounding of the output does to delta, found and made good while dq is made.
//
// delta_i = dO_i.o_i takes the output as it was stored. Where one key has nearly all the weight of a row, its
// ds = p (dp - delta) is a small difference of large numbers, and in 16 bits the rounding of o_i is all that is left of
// it. But the ds of a row must sum to dlse_i + p_sink (delta_i - dlse_i): what is off there is delta's error. Kernels
// that come later (keys, sinks, gates) take the better delta. In dq, which is summed by then, the excess
// error * sum_j p_j k_j is taken from the key that has more than half of the weight: the other keys' part of it is as
// small beside dq as rounding is. Rows without such a key have no such differences.
#pragma once

#include "cuda/device/quad.cuh"

namespace polyhead::cuda::portable {

// The key that has more than half of a row's weight: rare, so it lies in shared memory, one for every row of a block.
struct HeaviestKey {
  int key = -1;        // -1: none
  float slope = 1;     // of the softcap there
  float rounding = 0;  // by how much slope * ds grew as it was rounded for the product
};

struct DeltaRepair {
  float error;   // to be added to delta - dlse
  int heaviest;  // a key, or -1
  float excess;  // to be taken from its factor in dq
};

// Of a lane's two rows, lane / 4 and lane / 4 + 8 of its warp. Numbers of a block of keys, [kCount][4], are a lane's
// part as products leave it, and `key` is the lane's first.
struct RowBalance {
  HeaviestKey* rows;          // of the warp
  float sum[2] = {0, 0};      // of ds, over the lane's keys
  float weights[2] = {0, 0};  // of p
  int column[2] = {-1, -1};   // of the heaviest key in the last block, if the lane has it there

  __device__ void begin() const {
    if (threadIdx.x % 32 < 16) rows[threadIdx.x % 32] = {};
    __syncwarp();
  }
  __device__ HeaviestKey& row(int r) const { return rows[threadIdx.x % 32 / 4 + 8 * r]; }

  // The weights of a block of keys, 0 where hidden.
  template <int kCount>
  __device__ void seek(const float (&p)[kCount][4], int key) {
    float most[2] = {0, 0};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) most[r] = device::largest_of(most[r], p[n][2 * r], p[n][2 * r + 1]);
      column[r] = -1;
    }
    if (!(most[0] > 0.5f || most[1] > 0.5f)) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
        if (p[n][2 * r] > 0.5f) column[r] = 8 * n;
        if (p[n][2 * r + 1] > 0.5f) column[r] = 8 * n + 1;
      }
      if (column[r] >= 0) row(r).key = key + column[r];
    }
  }

  // The digits of weights that a large lse has not are found in their sum; only f32 has use for them.
  template <int kCount>
  __device__ void add_weights(const float (&p)[kCount][4]) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int k = 0; k < 4; ++k) weights[k / 2] += p[n][k];
    }
  }

  // The ds of the block that was sought in, 0 where hidden. slope_of(n, k): of the softcap; rounded(x): as the product
  // takes it.
  template <int kCount, class SlopeOf, class Rounded>
  __device__ void add(const float (&ds)[kCount][4], const SlopeOf& slope_of, const Rounded& rounded) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) sum[r] += ds[n][2 * r] + ds[n][2 * r + 1];
    }
    if (column[0] < 0 && column[1] < 0) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (column[r] < 0) continue;
      float x = 0, slope = 1;
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          if (column[r] != 8 * n + k) continue;
          x = ds[n][2 * r + k];
          slope = slope_of(n, 2 * r + k);
        }
      }
      row(r).slope = slope;
      row(r).rounding = rounded(slope * x) - slope * x;
    }
  }

  // For the delta - dlse that was used, and the weight that the row's sink has; p and ds are still to be multiplied by
  // `factor`. All lanes of a warp call this.
  __device__ DeltaRepair finish(int r, float delta, float dlse, float p_sink, float factor) const {
    __syncwarp();
    const HeaviestKey& heaviest = row(r);
    const float error = factor * device::quad_sum(sum[r]) - fmaf(p_sink, delta, dlse);
    return {error, heaviest.key, fmaf(error * heaviest.slope, 1 - p_sink, factor * heaviest.rounding)};
  }
};

}  // namespace polyhead::cuda::portable
