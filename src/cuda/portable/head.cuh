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

// backend::Visibility of one sequence in 32 bits: query i sees keys [0, head_end(i)) and [begin(i), end(i)).
struct Sight {
  int begin_shift, end_shift, head_shift;  // from i to begin, end and head_end, before those are clamped to the keys
  int always_first, keys;

  static constexpr int kFar = 1 << 30;  // farther than any key, for any query

  __device__ Sight(const backend::Visibility& all, const backend::Sequence& sequence)
      : always_first(static_cast<int>(std::min<std::int64_t>(all.window.always_first, kFar))),
        keys(static_cast<int>(sequence.keys)) {
    const auto near = [](std::int64_t x) {
      return static_cast<int>(std::max<std::int64_t>(-kFar, std::min<std::int64_t>(x, kFar)));
    };
    const std::int64_t right = all.causal ? 0 : all.window.right, offset = sequence.offset;
    const auto reach = [](std::int64_t x) {
      return std::min<std::int64_t>(x, std::int64_t{1} << 61);
    };  // can be added to without overflow
    begin_shift = all.window.left == kUnlimited ? -kFar : near(offset - reach(all.window.left));
    end_shift = right == kUnlimited ? kFar : near(offset + reach(right) + 1);
    head_shift = all.causal ? near(offset + 1) : kFar;
  }
  __device__ int within(int x) const { return max(0, min(x, keys)); }
  __device__ int begin(int i) const { return within(i + begin_shift); }
  __device__ int end(int i) const { return within(i + end_shift); }
  __device__ int head_end(int i) const { return min(always_first, within(i + head_shift)); }
};

struct Head {
  const AttentionArguments& a;
  const std::int64_t n;  // the sequence
  const int h, g;
  const backend::Sequence sequence;
  const Sight sight;
  float slope = 0, sink = kNegativeInfinity, gate = 1;

  __device__ Head(const AttentionArguments& arguments, std::int64_t sequence_index, int head)
      : a(arguments),
        n(sequence_index),
        h(head),
        g(head / arguments.heads_per_kv),
        sequence(arguments.sequences[sequence_index]),
        sight(arguments.sight, sequence) {
    if (a.alibi.present()) slope = number(a.alibi);
    if (a.gates.present()) gate = number(a.gates);
    if (a.sink_logit.present()) sink = static_cast<const float*>(a.sink_logit.data)[h * a.sink_logit.stride[0]];
  }

  __device__ bool has_sink() const { return sink != kNegativeInfinity; }

  __device__ std::int64_t q_row(int i) const { return a.q.at(sequence.batch, h, sequence.query_begin + i); }
  __device__ std::int64_t k_row(int j) const { return a.k.at(sequence.batch, g, sequence.key_begin + j); }
  __device__ std::int64_t v_row(int j) const { return a.v.at(sequence.batch, g, sequence.key_begin + j); }

  // What query i sees: nothing, if there is no such query.
  __device__ KeySight keys_of(std::int64_t query) const {
    if (query < 0 || query >= sequence.queries) return {0, 0, 0};
    const int i = static_cast<int>(query);
    return {sight.head_end(i), sight.begin(i), sight.end(i)};
  }
  __device__ RowSight row(std::int64_t query) const {
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
      const RowSight row = sm.rows[4 * ty + r];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = j0 + 4 * tx + c;
        float slope_here = 1;
        s[r][c] = row.sees(j) ? finish_logit(row, j, s[r][c], slope_here) : kNegativeInfinity;
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

  __device__ float finish_logit(const RowSight& row, int j, float dot, float& slope_here) const {
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

// What consecutive queries of a head see: the keys that some of them see, and those that all see.
struct BlockSight {
  int some_head = 0, some_begin = 0, some_end = 0;  // some see keys [0, some_head) and [some_begin, some_end)
  int all_head = 0, all_begin = 0, all_end = 0;     // all see keys [0, all_head) and [all_begin, all_end)

  // Of `count` queries from `first` on, as far as they exist.
  __device__ BlockSight(const Head& head, int first, int count) {
    const Sight& sight = head.sight;
    const int last = min(first + count, static_cast<int>(head.sequence.queries)) - 1;
    if (last < first) return;
    some_head = sight.head_end(last);
    some_begin = sight.begin(first);
    some_end = sight.end(last);
    all_head = sight.head_end(first);
    all_begin = sight.begin(last);
    all_end = sight.end(first);
    if (all_head >= all_begin) all_begin = 0;
  }

  // Does some query see any, or every query all, of keys [begin, end)? They may reach beyond the sequence's.
  __device__ bool any(int begin, int end) const {
    return ((end > 0) & (begin < some_head)) | ((end > some_begin) & (begin < some_end) & (some_begin < some_end));
  }
  __device__ bool all(int begin, int end) const {
    return (begin >= 0) & ((end <= all_head) | ((begin >= all_begin) & (end <= all_end)));
  }
  __device__ bool any(int j) const { return (j >= 0) & ((j < some_head) | ((j >= some_begin) & (j < some_end))); }

  // Keys [begin(), end()) hold all that are seen.
  __device__ int begin() const { return some_head > 0 ? 0 : some_begin; }
  __device__ int end() const { return max(some_head, some_begin < some_end ? some_end : 0); }
};

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
  const BlockSight sight(head, first, kTile);
  for (int j0 = sight.begin() / kTile * kTile; j0 < sight.end(); j0 += kTile) {
    if (sight.any(j0, j0 + kTile)) what(j0);
  }
}

}  // namespace polyhead::cuda::portable
