// Attention forward on the tensor cores, of 16-bit numbers or of f32 (T, see fragments.cuh), in the manner of
// FlashAttention-2: a block has 128 queries, a warp 16 or 32 of them, and walks over the keys that they see. While a
// tile of K is multiplied, the tile of V is on its way, and the other way round. The plain instance has the options
// that depend on positions and lengths, gates and sinks; the general one has all others, too.
#pragma once

#include <numbers>

#include "cuda/portable/fragments.cuh"
#include "cuda/portable/head.cuh"

namespace polyhead::cuda::portable {

// Output rows and lse, by their strides.
struct MmaOutputs {
  Strided output, lse;  // [B,H,T,E], [B,H,T]
};

template <class T, int kWidth, int kWarps, int kBlocks, int kKeys, bool kGeneral>
struct MmaForward {
  static constexpr int kThreads = 32 * kWarps, kRows = 16 * kBlocks * kWarps;
  using QueryTile = TileOf<T, kRows, kWidth>;
  using KeyTile = TileOf<T, kKeys, kWidth>;
  static constexpr std::size_t kSharedBytes = QueryTile::kBytes + 2 * KeyTile::kBytes;

  const AttentionArguments& a;
  const Head& head;
  const KeySet* const seen_by;  // [kRows] each query of the block
  int* const seen;              // [kKeys] does some row of the block see the key? null if positions alone tell
  const int first;              // the first query of the block
  const KeySet seen_by_some = head.keys_of_some(first, kRows), seen_by_all = head.keys_of_all(first, kRows);
  const QueryTile queries{device::dynamic_shared()};
  const KeyTile keys{device::dynamic_shared() + QueryTile::kBytes};
  const KeyTile values{device::dynamic_shared() + QueryTile::kBytes + KeyTile::kBytes};
  const int lane = threadIdx.x % 32, row0 = threadIdx.x / 32 * 16 * kBlocks;  // the warp's first row

  Sums<kWidth> o[kBlocks];
  // Of rows lane / 4 and lane / 4 + 8; l is the lane's share. Scores, and so m, are unscaled q.k in the plain instance.
  float m[kBlocks][2], l[kBlocks][2];

  __device__ float logit_of_score() const { return kGeneral ? 1.0f : a.scale; }

  __device__ int row_of(int block, int half) const { return first + row0 + 16 * block + 8 * half + lane / 4; }
  // The next tile of keys from j0 on that the block sees some of, or `end`.
  __device__ int next(int j0, int end) const {
    while (j0 < end && !seen_by_some.has_any({j0, j0 + kKeys})) j0 += kKeys;
    return j0;
  }

  __device__ void load_queries() const {
    const int count = static_cast<int>(head.sequence.queries) - first;
    queries.template load_later<kThreads>(static_cast<const Element<T>*>(a.q.data) + head.q_row(first), a.q.stride[2],
                                          a.head_dim, [=](int row) { return row < count; });
  }
  // Keys that no row of the block sees are loaded as zeros: NaN in them must not meet a weight of 0.
  __device__ void load_keys(const KeyTile& tile, const Strided& from, std::int64_t row, int width, int j0) const {
    tile.template load_later<kThreads>(static_cast<const Element<T>*>(from.data) + row, from.stride[2], width,
                                       [=, this](int n) { return seen_by_some.has(j0 + n); });
  }

  // s <- e^(s - m); the sums so far are scaled to the new m.
  __device__ void softmax(Sums<kKeys> (&s)[kBlocks], float scale) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float larger = m[block][half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
          larger = fmaxf(larger, fmaxf(s[block].of[n][2 * half], s[block].of[n][2 * half + 1]));
        }
        larger = device::quad_max(larger);
        // Of f32, the difference first: the largest weight is 1, and no digits of large logits are lost.
        const float top = larger == kNegativeInfinity ? 0.0f : larger, base = top * scale;
        const auto power = [&](float score) {
          return device::exp2_of(sizeof(Element<T>) == 4 ? (score - top) * scale : fmaf(score, scale, -base));
        };
        const float alpha = m[block][half] == larger ? 1.0f : power(m[block][half]);
        m[block][half] = larger;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int k = 2 * half; k < 2 * half + 2; ++k) {
            s[block].of[n][k] = power(s[block].of[n][k]);
            sum += s[block].of[n][k];
          }
        }
        l[block][half] = fmaf(l[block][half], alpha, sum);
        if (!__any_sync(0xffffffffu, alpha != 1)) continue;  // a new maximum is rare after the first tiles
#pragma unroll
        for (int n = 0; n < kWidth / 8; ++n) {
          o[block].of[n][2 * half] *= alpha;
          o[block].of[n][2 * half + 1] *= alpha;
        }
      }
    }
  }

  __device__ void mask(Sums<kKeys> (&s)[kBlocks], int j0) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const KeySet& row = seen_by[row_of(block, half) - first];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const int j = j0 + 8 * n + 2 * (lane % 4) + k;
            float& logit = s[block].of[n][2 * half + k];
            logit = row.has(j) ? logit : kNegativeInfinity;
          }
        }
      }
    }
  }

  // Dot products to logits, in place, with all options: -inf where a key is hidden.
  __device__ void finish(Sums<kKeys> (&s)[kBlocks], int j0) const {
    const std::int64_t b = head.sequence.batch, key = head.sequence.key_begin;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = row_of(block, half), p = static_cast<int>(i + head.sequence.offset);
        const KeySet& row = seen_by[i - first];
        const std::int64_t query = head.sequence.query_begin + i;
        const auto* keep = static_cast<const std::uint8_t*>(a.keep.data) + a.keep.at(b, head.h, query, key);
        const std::int64_t bias_row = a.bias.at(b, head.h, query, key);
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const int j = j0 + 8 * n + 2 * (lane % 4) + k;
            float& score = s[block].of[n][2 * half + k];
            float bias = kNegativeInfinity;
            if (row.has(j) && (!a.keep.present() || keep[j * a.keep.stride[3]] != 0)) {
              bias = a.bias.present() ? load(a.bias.data, a.bias.dtype, bias_row + j * a.bias.stride[3]) : 0.0f;
            }
            float logit = a.scale * score;
            if (a.softcap > 0) logit = a.softcap * tanh_as<T>(logit / a.softcap);
            logit = fmaf(-head.slope, fabsf(static_cast<float>(p - j)), logit + bias);
            score = bias == kNegativeInfinity ? bias : logit;  // whatever the key holds
            if (seen != nullptr && score != kNegativeInfinity) seen[j - j0] = 1;
          }
        }
      }
    }
  }

  // Four lanes have eight neighbouring keys of a row, which one draw of Philox decides: of four such groups each lane
  // draws for one, and they exchange words.
  __device__ void drop(Sums<kKeys> (&s)[kBlocks], int j0) const {
    const int q = lane % 4;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int n0 = 0; n0 < kKeys / 8; n0 += 4) {
          Philox::Words words =
              Philox::words(a.drops.seed, {static_cast<std::uint32_t>(j0 / 8 + n0 + q),
                                           static_cast<std::uint32_t>(row_of(block, half)),
                                           static_cast<std::uint32_t>(head.h), static_cast<std::uint32_t>(head.n)});
          device::transpose_quad(words);
#pragma unroll
          for (int n = 0; n < 4; ++n) {
#pragma unroll
            for (int k = 0; k < 2; ++k) {
              float& weight = s[block].of[n0 + n][2 * half + k];
              weight = (words[n] >> (16 * k) & 0xffffu) >= a.drops.threshold ? a.drops.factor * weight : 0.0f;
            }
          }
        }
      }
    }
  }

  // Values of keys that no row sees become zeros: NaN in them must not meet a weight of 0. All threads must call this.
  __device__ void clear_unseen_values() const {
    bool any = false;
    for (int n = threadIdx.x; n < kKeys; n += kThreads) any |= seen[n] == 0;
    if (__syncthreads_or(any)) {
      for (int n = threadIdx.x / 8; n < kKeys; n += kThreads / 8) {
        for (int piece = threadIdx.x % 8; seen[n] == 0 && piece < KeyTile::kPieces; piece += 8) {
          *reinterpret_cast<uint4*>(values.at(n, piece)) = uint4{0, 0, 0, 0};
        }
      }
      __syncthreads();
    }
    for (int n = threadIdx.x; n < kKeys; n += kThreads) seen[n] = 0;
  }

  __device__ void run(bool with_values) {
    const float scale = logit_of_score() * std::numbers::log2e_v<float>;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      o[block].clear();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        m[block][half] = head.has_sink() ? head.sink / logit_of_score() : kNegativeInfinity;
        l[block][half] = head.has_sink() && lane % 4 == 0 ? 1.0f : 0.0f;
      }
    }
    const auto [begin, end] = seen_by_some.hull({0, head.mask.keys});
    int j0 = next(begin / kKeys * kKeys, end);
    if (j0 >= end) return;
    load_queries();
    load_keys(keys, a.k, head.k_row(j0), a.head_dim, j0);
    device::commit_copies();
    while (j0 < end) {
      device::wait_for_copies<0>();
      __syncthreads();  // K is there, and V is no longer read
      if (with_values) load_keys(values, a.v, head.v_row(j0), a.value_dim, j0);
      device::commit_copies();
      Sums<kKeys> s[kBlocks];
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) s[block].clear();
      multiply_rows<T, kBlocks, kKeys, kWidth, false>(s, queries, row0, keys);
      if constexpr (kGeneral) {
        finish(s, j0);
      } else {
        if (!seen_by_all.has_all({j0, j0 + kKeys})) mask(s, j0);
      }
      softmax(s, scale);
      device::wait_for_copies<0>();
      __syncthreads();  // V is there, and K is no longer read
      if (kGeneral && seen != nullptr) clear_unseen_values();
      const int after = next(j0 + kKeys, end);
      if (after < end) load_keys(keys, a.k, head.k_row(after), a.head_dim, after);
      device::commit_copies();
      if (with_values) {
        if (kGeneral && a.drops.any) drop(s, j0);
        PackedWeights<T, kKeys> p[kBlocks];
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) pack_weights<T, kKeys>(p[block], s[block]);
        multiply_weights<T, kBlocks, kKeys, kWidth>(o, p, values, 0);
      }
      j0 = after;
    }
  }

  __device__ void store_rows(const MmaOutputs& out) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = device::quad_sum(l[block][half]);
        const int i = row_of(block, half);
        if (i >= head.sequence.rows) continue;
        const bool exists = i < head.sequence.queries;
        const std::int64_t query = head.sequence.query_begin + i;
        const float factor = exists && head.gate != 0 && sum != 0 ? head.gate / sum : 0.0f;
        auto* row = static_cast<Element<T>*>(out.output.data) + out.output.at(head.sequence.batch, head.h, query);
#pragma unroll
        for (int n = 0; n < kWidth / 8; ++n) {
          const int e = 8 * n + 2 * (lane % 4);
          if (e >= a.value_dim) continue;
          store_pair(row + e, exists ? factor * o[block].of[n][2 * half] : 0.0f,
                     exists ? factor * o[block].of[n][2 * half + 1] : 0.0f);
        }
        if (!out.lse.present() || lane % 4 != 0) continue;
        static_cast<float*>(out.lse.data)[out.lse.at(head.sequence.batch, head.h, query)] =
            exists ? (m[block][half] == kNegativeInfinity ? kNegativeInfinity
                                                          : fmaf(m[block][half], logit_of_score(), logf(sum)))
                   : kNegativeInfinity;
      }
    }
  }
};

template <class T, int kWidth, int kWarps, int kBlocks, int kKeys, bool kGeneral>
__global__ void __launch_bounds__(32 * kWarps)
    attend_mma_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ MmaOutputs out, int tiles) {
  using Forward = MmaForward<T, kWidth, kWarps, kBlocks, kKeys, kGeneral>;
  const BlockPlace place(1, tiles, a.heads);
  const Head& head = *share_head(a, place.n, place.h);
  const int first = place.tile * Forward::kRows;
  if (first >= head.sequence.rows) return;
  __shared__ KeySet seen_by[Forward::kRows];
  __shared__ int seen[kGeneral ? kKeys : 1];
  for (int n = threadIdx.x; n < Forward::kRows; n += Forward::kThreads) seen_by[n] = head.keys_of(first + n);
  for (int n = threadIdx.x; kGeneral && n < kKeys; n += Forward::kThreads) seen[n] = 0;
  const bool hides = kGeneral && (a.keep.present() || a.bias.present());  // keys by more than their positions
  Forward forward{a, head, seen_by, hides ? seen : nullptr, first};
  if (head.gate == 0 && !out.lse.present()) {
    // Nothing but zeros to write.
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      forward.o[block].clear();
      forward.m[block][0] = forward.m[block][1] = forward.l[block][0] = forward.l[block][1] = 0;
    }
  } else {
    forward.run(head.gate != 0);
  }
  forward.store_rows(out);
}

}  // namespace polyhead::cuda::portable
