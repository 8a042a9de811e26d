// What is found out about keys before a pass: a bit for each that keep leaves, and which of them some query sees.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/sm90/arguments.h"

namespace polyhead::cuda::sm90 {

// bits [rows][words]: bit j % 32 of word j / 32 is set where keep is, for its rows without broadcast copies; 0 behind
// the last key. A warp makes a word.
__global__ void __launch_bounds__(256) pack_keep(const __grid_constant__ ScoreTensor keep, int heads, int queries,
                                                 std::int64_t keys, std::uint32_t* bits, int words) {
  const int groups = (words + 7) / 8, group = static_cast<int>(blockIdx.x) % groups;
  const int row = static_cast<int>(blockIdx.x) / groups, word = 8 * group + static_cast<int>(threadIdx.x) / 32;
  if (word >= words) return;
  const std::int64_t key = std::int64_t{32} * word + threadIdx.x % 32;
  const std::int64_t at = keep.at(row / queries / heads, row / queries % heads, row % queries, key);
  const std::uint32_t set = __ballot_sync(~0u, key < keys && static_cast<const std::uint8_t*>(keep.data)[at] != 0);
  if (threadIdx.x % 32 == 0) bits[static_cast<std::int64_t>(row) * words + word] = set;
}

// seen [B,H or 1,S]: 1 for a key that some query of its sequence sees, despite keep and bias. A block has 32 keys of a
// sequence and a head; its warps take rows in turn, from the last on, until all keys are seen.
__global__ void __launch_bounds__(256)
    find_seen_keys(const __grid_constant__ kernels::Sequences sequences, const Reach reach,
                   const __grid_constant__ Options o, std::uint8_t* seen, int heads, int groups) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(blockIdx.x) % groups, pair = static_cast<int>(blockIdx.x) / groups;
  const int head = pair % heads;
  const kernels::Sequence s = sequences[pair / heads];
  const int key = 32 * group + lane, keys = static_cast<int>(s.keys), queries = static_cast<int>(s.queries);
  if (32 * group >= keys) return;
  const auto offset =
      static_cast<int>(std::max<std::int64_t>(-Reach::kLongest, std::min<std::int64_t>(s.offset, Reach::kLongest)));
  const auto number = [](const ScoreTensor& tensor, std::int64_t at) {
    switch (tensor.dtype) {
      case DType::f32: return static_cast<const float*>(tensor.data)[at];
      case DType::f16: return __half2float(static_cast<const __half*>(tensor.data)[at]);
      case DType::bf16: return __bfloat162float(static_cast<const __nv_bfloat16*>(tensor.data)[at]);
      default: return static_cast<float>(static_cast<const std::uint8_t*>(tensor.data)[at]);
    }
  };
  bool found = key >= keys;
  for (int row = queries - 1 - warp; row >= 0 && !__all_sync(~0u, found); row -= 8) {
    if (found || !RowSight(reach, row + offset, keys).sees(key)) continue;
    const auto at = [&](const ScoreTensor& x) { return x.at(s.batch, head, s.query_begin + row, s.key_begin + key); };
    found = (o.keep.data == nullptr || number(o.keep, at(o.keep)) != 0) &&
            (o.bias.data == nullptr || number(o.bias, at(o.bias)) != -INFINITY);
  }
  __shared__ int any[32];
  if (warp == 0) any[lane] = 0;
  __syncthreads();
  if (found) any[lane] = 1;
  __syncthreads();
  if (warp == 0 && key < keys) {
    seen[s.batch * o.seen_batch + head * o.seen_head + s.key_begin + key] = static_cast<std::uint8_t>(any[lane]);
  }
}

}  // namespace polyhead::cuda::sm90
