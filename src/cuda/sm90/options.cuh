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

// Two neighbours along the keys, as a word and as numbers.
template <class X>
__device__ inline float2 two_of(std::uint32_t word) {
  if constexpr (std::is_same_v<X, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
}

template <class T, int kKeys>
struct GeneralOptions {
  static constexpr int kCount = kKeys / 2;  // of a thread's scores
  using Scores = float[kCount];

  const Options& o;
  const Tile& tile;
  const float scale;  // log2(e) is in it

  // What is known of a block before its scores are.
  struct Early {
    std::uint32_t bias[kCount / 2];                    // pairs, if paired
    bool paired = false;                               // the tensor is of type T, the block whole, its pairs aligned
    std::uint32_t keep[2] = {~0u, ~0u}, kept[2] = {};  // bit i of word r: number i of row r is visible; is not dropped
  };
  __device__ Early early(const ScoreBlock& block) const {
    Early early;
    if (o.bias.data != nullptr) fetch_bias(early, block);
    if (o.keep.data != nullptr) {
      for_numbers<std::uint8_t>(block, o.keep, [&](int r, int i, std::uint8_t keep) {
        early.keep[r] = keep != 0 ? early.keep[r] : early.keep[r] & ~(1u << i);
      });
    }
    if (o.threshold > 0) draw(early, block);
    return early;
  }

  // s: q . k, becomes the logits in powers of 2.
  __device__ void finish(Scores& s, const ScoreBlock& block, const Early& early) const {
    cap(s);
    if (tile.slope != 0) add_alibi(s, block);
    if (o.bias.data != nullptr) add_bias(s, block, early);
    if (o.keep.data != nullptr) {
      for_scores(s, [&](int r, int i, float& x) { x = early.keep[r] >> i & 1 ? x : -INFINITY; });
    }
  }

  // s: weights; those that are dropped become 0.
  __device__ void drop(Scores& s, const Early& early) const {
    if (o.threshold == 0) return;
    for_scores(s, [&](int r, int i, float& x) { x = early.kept[r] >> i & 1 ? o.kept_factor * x : 0.f; });
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

  // act(r, i, x) for number i of row r; its column is 8 (i / 2) + i % 2.
  template <class Act>
  __device__ static void for_scores(Scores& s, const Act& act) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) act(r, i, s[i / 2 * 4 + 2 * r + i % 2]);
    }
  }

  // The same with a tensor's numbers, where there are such keys.
  template <class X, class Act>
  __device__ void for_numbers(const ScoreBlock& block, const ScoreTensor& tensor, const Act& act) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const X* from = row_of<X>(tensor, block, r);
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) {
        const int column = i / 2 * 8 + i % 2;
        if (block.first_key + column < tile.keys) act(r, i, from[column * tensor.key]);
      }
    }
  }
  template <class X>
  __device__ const X* row_of(const ScoreTensor& tensor, const ScoreBlock& block, int r) const {
    const int row = min(block.row_of(r), tile.queries - 1);
    return static_cast<const X*>(tensor.data) +
           tensor.at(tile.batch, tile.head, tile.query_begin + row, tile.key_begin + block.first_key);
  }

  __device__ void add_alibi(Scores& s, const ScoreBlock& block) const {
    const float p = static_cast<float>(block.row + tile.offset - block.first_key);
    const float away[2] = {p, p + 8};
    for_scores(s, [&](int r, int i, float& x) { x = fmaf(-tile.slope, fabsf(away[r] - (i / 2 * 8 + i % 2)), x); });
  }

  __device__ void fetch_bias(Early& early, const ScoreBlock& block) const {
    const bool whole = block.first_key - 2 * block.lane + kKeys <= tile.keys;
    const T* const from[2] = {row_of<T>(o.bias, block, 0), row_of<T>(o.bias, block, 1)};
    const auto places = reinterpret_cast<std::uintptr_t>(from[0]) | reinterpret_cast<std::uintptr_t>(from[1]);
    early.paired = o.bias.dtype != DType::f32 && o.bias.key == 1 && whole && places % 4 == 0;
    if (!early.paired) return;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      early.bias[i] = *reinterpret_cast<const std::uint32_t*>(from[i % 2] + i / 2 * 8);
    }
  }
  __device__ void add_bias(Scores& s, const ScoreBlock& block, const Early& early) const {
    const auto add = [](float& x, float bias) {
      x = bias == -INFINITY ? -INFINITY : fmaf(bias, kLog2E, x);  // whatever the key holds
    };
    const auto add_number = [&](int r, int i, auto bias) {
      add(s[i / 2 * 4 + 2 * r + i % 2], static_cast<float>(bias));
    };
    if (early.paired) {
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const float2 two = two_of<T>(early.bias[i]);
        add(s[2 * i], two.x);
        add(s[2 * i + 1], two.y);
      }
    } else if (o.bias.dtype == DType::f32) {
      for_numbers<float>(block, o.bias, add_number);
    } else {
      for_numbers<T>(block, o.bias, add_number);
    }
  }

  // Four lanes have eight neighbouring keys of a row, which one draw of Philox decides: each lane draws for one group
  // of four, and they exchange words.
  __device__ void draw(Early& early, const ScoreBlock& block) const {
    const int group = (block.first_key - 2 * block.lane) / 8;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int g = 0; g < kKeys / 8; g += 4) {
        Philox::Words words = Philox::words(
            o.seed, {static_cast<std::uint32_t>(group + g + block.lane), static_cast<std::uint32_t>(block.row_of(r)),
                     static_cast<std::uint32_t>(tile.head), static_cast<std::uint32_t>(tile.sequence)});
        device::transpose_quad(words);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const bool kept = (words[i / 2] >> (16 * (i % 2)) & 0xffffu) >= o.threshold;
          early.kept[r] |= kept ? 1u << (2 * g + i) : 0u;
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
