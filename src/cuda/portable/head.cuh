// One head of one sequence: its logits, tile by tile, and which keys are visible.
#pragma once

#include <cmath>
#include <cstddef>
#include <new>

#include "core/philox.h"
#include "cuda/portable/arguments.h"
#include "cuda/portable/tile.cuh"

namespace polyhead::cuda::portable {

inline constexpr float kNegativeInfinity = -INFINITY;

// Does dropout keep key j of query i? 16 bits of Philox with the counter (j/8, i, h, n), see docs/semantics.md.
__device__ inline bool is_kept(const Drops& drops, std::int64_t n, int h, int i, int j) {
  const Philox::Words words =
      Philox::words(drops.seed, {static_cast<std::uint32_t>(j / 8), static_cast<std::uint32_t>(i),
                                 static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(n)});
  const int pair = j % 8 / 2;
  const std::uint32_t word = pair == 0 ? words[0] : pair == 1 ? words[1] : pair == 2 ? words[2] : words[3];
  return ((word >> (16 * (j % 2))) & 0xffffu) >= drops.threshold;
}

struct Head {
  const AttentionArguments& a;
  const std::int64_t n;  // the sequence
  const int h, g;
  const kernels::Sequence sequence;
  const kernels::PositionMask<int> mask;
  float slope = 0, sink = kNegativeInfinity, gate = 1;

  __device__ Head(const AttentionArguments& arguments, std::int64_t sequence_index, int head)
      : a(arguments),
        n(sequence_index),
        h(head),
        g(head / arguments.heads_per_kv),
        sequence(arguments.sequences[sequence_index]),
        mask(arguments.mask, sequence) {
    if (a.alibi.present()) slope = number(a.alibi);
    if (a.gates.present()) gate = number(a.gates);
    if (a.sink_logit.present()) sink = static_cast<const float*>(a.sink_logit.data)[h * a.sink_logit.stride[0]];
  }

  __device__ bool has_sink() const { return sink != kNegativeInfinity; }

  __device__ std::int64_t q_row(int i) const { return a.q.at(sequence.batch, h, sequence.query_begin + i); }
  __device__ std::int64_t k_row(int j) const { return a.k.at(sequence.batch, g, sequence.key_begin + j); }
  __device__ std::int64_t v_row(int j) const { return a.v.at(sequence.batch, g, sequence.key_begin + j); }

  // The keys that a query sees: none, if there is no such query.
  __device__ KeySet keys_of(std::int64_t query) const {
    return query < 0 || query >= sequence.queries ? KeySet{} : mask.keys_of(static_cast<int>(query));
  }
  // The last of `count` queries from `first` on that exists, if any does; and the keys that some, or all, of them see.
  __device__ int last_of(int first, int count) const {
    return min(first + count, static_cast<int>(sequence.queries)) - 1;
  }
  __device__ KeySet keys_of_some(int first, int count) const {
    const int last = last_of(first, count);
    return last < first ? KeySet{} : mask.keys_of_some(first, last);
  }
  __device__ KeySet keys_of_all(int first, int count) const {
    const int last = last_of(first, count);
    return last < first ? KeySet{} : mask.keys_of_all(first, last);
  }
  __device__ TileRow row(std::int64_t query) const {
    const bool exists = query >= 0 && query < sequence.queries;
    return {keys_of(query), query + sequence.offset, exists ? static_cast<int>(query) : -1};
  }
  // Sets the rows of a tile, by the block's first threads; a barrier must follow before they are read.
  __device__ void set_rows(Shared& sm, std::int64_t first) const {
    if (threadIdx.x < kTile) sm.rows[threadIdx.x] = row(first + threadIdx.x);
  }

  // s [kTile][kTile] of the rows in sm.rows and keys j0 ...: -inf where hidden. slopes: what the softcap multiplies
  // gradients by. Marks the keys that some row sees. Rounds the same way wherever it is inlined.
  __device__ void logits(Shared& sm, int j0, float (&s)[4][4], float (&slopes)[4][4]) const {
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) s[r][c] = 0;
    }
    __syncthreads();  // sm.seen of the last tile is no longer in use
    if (threadIdx.x < kTile) sm.seen[threadIdx.x] = 0;
    add_dots(
        sm, a.q.data, a.q.dtype, [&](int r) { return sm.rows[r].i < 0 ? kAbsent : q_row(sm.rows[r].i); }, a.k.data,
        a.k.dtype, [&](int c) { return j0 + c < 0 || j0 + c >= sequence.keys ? kAbsent : k_row(j0 + c); }, a.head_dim,
        s);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const TileRow row = sm.rows[4 * ty + r];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = j0 + 4 * tx + c;
        float slope_here = 1;
        s[r][c] = row.keys.has(j) ? finish_logit(row, j, s[r][c], slope_here) : kNegativeInfinity;
        slopes[r][c] = slope_here;
        if (s[r][c] != kNegativeInfinity) sm.seen[4 * tx + c] = 1;
      }
    }
  }

  __device__ std::int64_t value_row(const Shared& sm, int j0, int c) const {
    return sm.seen[c] != 0 ? v_row(j0 + c) : kAbsent;
  }
  __device__ std::int64_t key_row(const Shared& sm, int j0, int c) const {
    return sm.seen[c] != 0 ? k_row(j0 + c) : kAbsent;
  }

 private:
  __device__ float number(const Strided& per_head) const {
    return static_cast<const float*>(per_head.data)[n * per_head.stride[0] + h * per_head.stride[1]];
  }

  __device__ float finish_logit(const TileRow& row, int j, float dot, float& slope_here) const {
    const std::int64_t b = sequence.batch, query = sequence.query_begin + row.i, key = sequence.key_begin + j;
    if (a.keep.present() && static_cast<const std::uint8_t*>(a.keep.data)[a.keep.at(b, h, query, key)] == 0) {
      return kNegativeInfinity;
    }
    const float bias = a.bias.present() ? load(a.bias.data, a.bias.dtype, a.bias.at(b, h, query, key)) : 0.0f;
    if (bias == kNegativeInfinity) return bias;  // whatever the key holds
    float s = __fmul_rn(a.scale, dot);
    if (a.softcap > 0 && a.stage != LogitStage::scaled) {
      const float t = tanhf(__fdiv_rn(s, a.softcap));
      s = __fmul_rn(a.softcap, t);
      slope_here = __fmaf_rn(-t, t, 1.0f);
    }
    if (a.stage != LogitStage::biased) return s;
    s = __fadd_rn(s, bias);
    if (a.alibi.present()) s = __fmaf_rn(-slope, fabsf(static_cast<float>(row.p - j)), s);
    return s;
  }
};

// A Head for all threads of a block, in shared memory: registers are for the products.
__device__ inline const Head* share_head(const AttentionArguments& a, std::int64_t n, int h) {
  __shared__ std::int64_t memory[(sizeof(Head) + 7) / 8];
  auto* head = reinterpret_cast<Head*>(memory);
  if (threadIdx.x == 0) new (memory) Head(a, n, h);
  __syncthreads();
  return head;
}

// Which part, tile, head and sequence a block works on; the last tiles, which see most under a causal mask, come first.
struct BlockPlace {
  int part, tile, h;
  std::int64_t n;

  __device__ BlockPlace(int parts, int tiles, int heads) {
    std::int64_t id = blockIdx.x;
    part = static_cast<int>(id % parts);
    id /= parts;
    tile = tiles - 1 - static_cast<int>(id % tiles);
    id /= tiles;
    h = static_cast<int>(id % heads);
    n = id / heads;
  }
};

// what(j0) for every tile of keys that the rows [first, first + kTile) see some of.
template <class What>
__device__ void for_key_tiles(const Head& head, int first, const What& what) {
  const KeySet seen = head.keys_of_some(first, kTile);
  const auto [begin, end] = seen.hull({0, head.mask.keys});
  for (int j0 = begin / kTile * kTile; j0 < end; j0 += kTile) {
    if (seen.has_any({j0, j0 + kTile})) what(j0);
  }
}

}  // namespace polyhead::cuda::portable
