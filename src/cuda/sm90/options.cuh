// The rarer options on a thread's scores of one block of keys, one after the other: softcap, alibi, bias and keep
// before the softmax, dropout behind it. Without branches within: what a call does not have is one branch for a whole
// block.
#pragma once

#include "cuda/device/mma.cuh"
#include "cuda/device/quad.cuh"
#include "cuda/sm90/arguments.h"

namespace polyhead::cuda::sm90 {

// Where a thread's scores lie: its rows are `row` and row + 8 of the sequence, its columns key `first_key` and the
// next, and so on every 8 keys. lane: of the four that share the row.
struct ScoreBlock {
  int row, first_key, lane;

  __device__ int row_of(int r) const { return row + 8 * r; }
};

// Of the type that a tensor by score has, two neighbours along the keys.
template <class X>
__device__ inline float2 load_pair(const X* from) {
  const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(from);
  if constexpr (std::is_same_v<X, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&two));
  } else {
    return {__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u)};
  }
}
template <>
__device__ inline float2 load_pair<float>(const float* from) {
  return *reinterpret_cast<const float2*>(from);
}
template <>
__device__ inline float2 load_pair<std::uint8_t>(const std::uint8_t* from) {
  const unsigned two = *reinterpret_cast<const std::uint16_t*>(from);
  return {static_cast<float>(two & 0xff), static_cast<float>(two >> 8)};
}

template <class T, int kKeys>
struct GeneralOptions {
  static constexpr int kCount = kKeys / 2;  // of a thread's scores
  using Scores = float[kCount];

  const Options& o;
  const Tile& tile;
  const float scale;  // log2(e) is in it

  // s: q . k, becomes the logits in powers of 2.
  __device__ void finish(Scores& s, const ScoreBlock& block) const {
    cap(s);
    if (o.alibi != nullptr) add_alibi(s, block);
    if (o.bias.data != nullptr) {
      const auto add = [](float& x, float bias) {
        x = bias == -INFINITY ? -INFINITY : fmaf(bias, kLog2E, x);  // whatever the key holds
      };
      o.bias.dtype == DType::f32 ? for_scores<float>(s, block, o.bias, add) : for_scores<T>(s, block, o.bias, add);
    }
    if (o.keep.data != nullptr) {
      for_scores<std::uint8_t>(s, block, o.keep, [](float& x, float keep) { x = keep != 0 ? x : -INFINITY; });
    }
  }

  // s: weights; those that are dropped become 0. Four lanes have eight neighbouring keys of a row, which one draw of
  // Philox decides: each lane draws for one group of four, and they exchange words.
  __device__ void drop(Scores& s, const ScoreBlock& block) const {
    if (o.threshold == 0) return;
    const int group = (block.first_key - 2 * block.lane) / 8;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int i = 0; i < kKeys / 8; i += 4) {
        Philox::Words words = Philox::words(
            o.seed, {static_cast<std::uint32_t>(group + i + block.lane), static_cast<std::uint32_t>(block.row_of(r)),
                     static_cast<std::uint32_t>(tile.head), static_cast<std::uint32_t>(tile.sequence)});
        device::transpose_quad(words);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& weight = s[4 * (i + k) + 2 * r + e];
            weight = (words[k] >> (16 * e) & 0xffffu) >= o.threshold ? o.kept_factor * weight : 0.f;
          }
        }
      }
    }
  }

  // Whether some query of the sequence sees the key.
  __device__ bool is_seen(int key) const {
    if (o.seen == nullptr || key >= tile.keys) return true;
    return o.seen[tile.batch * o.seen_batch + tile.head * o.seen_head + tile.key_begin + key] != 0;
  }

 private:
  __device__ void cap(Scores& s) const {
    if (o.softcap > 0) {
      const float inner = scale / (kLog2E * o.softcap), outer = o.softcap * kLog2E;
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] = outer * device::tanh_of(inner * s[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] *= scale;
    }
  }

  __device__ void add_alibi(Scores& s, const ScoreBlock& block) const {
    const float slope = o.alibi[tile.sequence * o.alibi_sequence + tile.head * o.alibi_head] * kLog2E;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float away = static_cast<float>(block.row_of(r) + tile.offset - block.first_key);
#pragma unroll
      for (int j = 0; j < kCount; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; ++e) s[j + 2 * r + e] = fmaf(-slope, fabsf(away - (2 * j + e)), s[j + 2 * r + e]);
      }
    }
  }

  // act(score, number) for all scores, with the tensor's numbers, which are of type X. Two at a time where the block
  // is whole and pairs are aligned.
  template <class X, class Act>
  __device__ void for_scores(Scores& s, const ScoreBlock& block, const ScoreTensor& tensor, const Act& act) const {
    const int first = block.first_key - 2 * block.lane;
    const std::int64_t key = tile.key_begin + block.first_key;
    const bool whole = first + kKeys <= tile.keys;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = min(block.row_of(r), tile.queries - 1);
      const X* from =
          static_cast<const X*>(tensor.data) + tensor.at(tile.batch, tile.head, tile.query_begin + row, key);
      if (whole && tensor.pairs && reinterpret_cast<std::uintptr_t>(from) % (2 * sizeof(X)) == 0) {
#pragma unroll
        for (int j = 0; j < kCount; j += 4) {
          const float2 two = load_pair<X>(from + 2 * j);
          act(s[j + 2 * r], two.x);
          act(s[j + 2 * r + 1], two.y);
        }
      } else {
#pragma unroll
        for (int j = 0; j < kCount; j += 4) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = 2 * j + e;
            if (block.first_key + column < tile.keys) {
              act(s[j + 2 * r + e], static_cast<float>(from[column * tensor.key]));
            }
          }
        }
      }
    }
  }
};

// seen [B,H or 1,S]: 1 for a key that some query of its sequence sees, for all that keep and bias hide. A block has 32
// keys of a sequence and a head; its warps take rows in turn, from the last on, until all are seen.
__global__ void __launch_bounds__(256)
    find_seen_keys(const __grid_constant__ ForwardArguments a, std::uint8_t* seen, int heads, int groups) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(blockIdx.x) % groups, pair = static_cast<int>(blockIdx.x) / groups;
  const int head = pair % heads;
  const backend::Sequence s = a.sequences[pair / heads];
  const int key = 32 * group + lane, keys = static_cast<int>(s.keys), queries = static_cast<int>(s.queries);
  if (32 * group >= keys) return;
  const Options& o = a.options;
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
    if (found || !RowSight(a.reach, row + offset, keys).sees(key)) continue;
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
