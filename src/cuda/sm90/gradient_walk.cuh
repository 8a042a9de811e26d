// What a block of threads of the backward kernels owns, which blocks of the other side it walks over, and what is
// hidden there. Own lines are queries and the others keys, or the other way round.
#pragma once

#include <climits>

#include "cuda/device/tma.cuh"
#include "cuda/sm90/arguments.h"
#include "cuda/sm90/schedule.cuh"
#include "cuda/sm90/softmax.cuh"

namespace polyhead::cuda::sm90 {

struct GradientArguments {
  CUtensorMap own_qk, own_vdo, other_qk, other_vdo;  // boxes of 64 columns
  kernels::Sequences sequences;
  kernels::MaskOptions mask;
  Reach reach;
  TileOrder order;
  int heads = 1, heads_per_kv = 1;
  float scale = 1, scale_log2 = 1;  // the second includes log2(e)
  PerHead gates;
  Strided<const float> dlse;  // reaches heads whose gate is 0, too
  const float* lse;           // [B,H,T] in powers of 2, +inf for a row that sees nothing
  // [B,H,T]: gate dO . o - dlse; of the output as it was stored, until dq is made. The plain instances take gates out
  // of it then: with a gate they have no dlse.
  float* delta;
  float* dots = nullptr;              // [B,H,T]: dO . o without the gate, if the general instance must find it
  Strided<const void> k;              // for dq
  const float* sink_logit = nullptr;  // [H], for dq
  std::int64_t sink_head = 0;
  Strided<void> first, second;  // dq; or dk and dv
  Options options;              // of the general instance

  __device__ std::int64_t row(int batch, int head, int query) const {
    return (static_cast<std::int64_t>(batch) * heads + head) * sequences.queries + query;
  }
};

template <int kCount>
__device__ void clear(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = 0;
}

// Which columns of a block a line sees, or is seen by: [begin, end) and, if the line is a query, those below `head`.
struct LineSight {
  int begin, end, head;

  template <bool kOfKeys>
  __device__ bool sees(int column) const {
    return (column >= begin && column < end) || (!kOfKeys && column < head);
  }
};

struct GradientTile {
  bool exists = false;                                 // there is something to write
  int sequence = 0, batch = 0, head = 0, kv_head = 0;  // keys: the first of the heads that share them
  int place = 0;                                       // of the first own line, in the tensor
  int own_begin = 0, line = 0;       // where the sequence's own lines begin, and the tile's first of them
  int lines = 0, lines_written = 0;  // of the sequence: those that exist, and those that are written
  int other_begin = 0, other_lines = 0, other_size = 0;  // of the sequence, and of the tensor
  // Other lines that count: [0, used_head) and [used_begin, used_end).
  int used_head = 0, used_begin = 0, used_end = 0;
  int offset = 0;                                 // query i is at position i + offset
  int open_first = INT_MAX, open_last = INT_MIN;  // of the other side's blocks, those that need no mask
  KeyBlocks blocks;                               // of the other side
  int plain_first = 0, plain_count = 0;  // numbers, in the walk, of blocks that need neither a mask nor cleaning

  __device__ bool is_used(int other) const { return other < used_head || (other >= used_begin && other < used_end); }
  // Behind the tensor's end the copy engine puts 0.
  __device__ bool needs_cleaning(int other, int count) const {
    const int end = other + count;
    if (end <= used_head) return false;
    return other < used_begin || (end > used_end && other_begin + used_end < other_size);
  }

  // block: lines of the other side from `other` on, in shared memory. Those that do not count become 0, and so do those
  // that are hidden(n) from all. The threads of a warpgroup share the work.
  template <class T, int kTiles, int kElements, class Hidden>
  __device__ void clean(T (&block)[kTiles][kElements], int other, int thread, const Hidden& hidden) const {
    for (int n = thread; n < kElements / 64; n += kWarpgroup) {
      if (is_used(other + n) && !hidden(n)) continue;
      for (int c = 0; c < kTiles; ++c) {
        for (int i = 0; i < 8; ++i) reinterpret_cast<uint4*>(&block[c][n * 64])[i] = uint4{0, 0, 0, 0};
      }
    }
  }

  // Do all own lines and all of the block's, from `other` on, see each other?
  __device__ bool is_open(int other) const { return other >= open_first && other <= open_last; }
  template <bool kOfKeys>
  __device__ void set_open(const Reach& reach, int own_count, int other_count) {
    if constexpr (kOfKeys) {
      const int end = line + reach.left + 1 - offset;  // the first key is not seen from there on
      open_first = line + own_count - 1 - reach.right - offset;
      open_last = other_lines <= end ? INT_MAX : end - other_count;
    } else {
      const int last = min(line + own_count, lines) - 1 + offset;
      open_first = last - reach.left;
      open_last = min(other_lines, line + offset + reach.right + 1) - other_count;
    }
  }

  // Open blocks whose lines all exist. They follow each other.
  __device__ void set_plain(int other_count) {
    const int whole = other_lines / other_count - 1, open = open_last < 0 ? -1 : open_last / other_count;
    const int last = min(blocks.window_last, min(whole, open));
    const int first =
        max(blocks.window_last - blocks.window_count + 1, open_first <= 0 ? 0 : (open_first - 1) / other_count + 1);
    plain_first = blocks.window_last - last;
    plain_count = max(last - first + 1, 0);
  }

  // What own line `own` sees, in columns counted from `other` on.
  template <bool kOfKeys>
  __device__ LineSight sight_of(const Reach& reach, int own, int other) const {
    if constexpr (kOfKeys) {
      // Queries that do not exist see nothing: a key that nobody sees may hold NaN. One that is always seen is so from
      // somewhere in its window on.
      const int p = other + offset, count = other_lines - other, right = own - reach.right - p;
      if (own < reach.first) return {min(right, own - reach.first_right - p), count, 0};
      return {right, min(own + reach.left + 1 - p, count), 0};
    } else {
      const RowSight sight(reach, own + offset, other_lines);
      return {sight.begin - other, sight.end - other, sight.head - other};
    }
  }
};

// Goes over the blocks of the other side: blocks of keys or, for own keys, those of the queries of every head that
// shares them.
template <bool kOfKeys, int kOther>
struct GradientWalk {
  const GradientArguments& a;
  const GradientTile& tile;
  int head = tile.head - 1, n = tile.blocks.count() - 1;
  float gate = 1;

  __device__ bool next() {
    if (++n < tile.blocks.count()) return true;
    n = 0;
    while (++head < tile.head + (kOfKeys ? a.heads_per_kv : 1)) {
      gate = a.gates.at(tile.sequence, head, 1);
      if ((gate != 0 || a.dlse.data != nullptr || a.dots != nullptr) && tile.blocks.count() > 0) return true;
    }
    return false;
  }
  __device__ int line() const { return tile.blocks[n] * kOther; }  // the block's first, counted in the sequence
};

// Loads lines from `row` on of a head, all columns.
template <class T, int kTiles, int kElements>
__device__ void load_lines(T (&to)[kTiles][kElements], const CUtensorMap& map, int row, int head, int batch,
                           device::Barrier& full, device::Keep keep) {
  for (int c = 0; c < kTiles; ++c) device::load_tile(to[c], map, 64 * c, row, head, batch, full, keep);
}

// A warp brings lse and delta of the rows of every block. Queries that do not exist see nothing.
template <bool kOfKeys, int kOther, int kStages>
__device__ void bring_rows(const GradientArguments& a, const GradientTile& tile, float (&lse_to)[kStages][kOther],
                           float (&delta_to)[kStages][kOther], device::Barrier (&full)[kStages],
                           device::Barrier (&empty)[kStages]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  GradientWalk<kOfKeys, kOther> walk{a, tile};
  for (Count count = 0; walk.next(); ++count) {
    const int stage = count % kStages, line = walk.line();
    const std::int64_t begin = a.row(tile.batch, walk.head, tile.other_begin + line);
    constexpr int kRounds = (kOther + 31) / 32;
    float lse[kRounds], delta[kRounds];
#pragma unroll
    for (int n = 0; n < kRounds; ++n) {
      const int row = 32 * n + lane;
      const bool exists = line + row < tile.other_lines;
      lse[n] = exists ? a.lse[begin + row] : INFINITY;
      delta[n] = exists ? a.delta[begin + row] : 0.f;
    }
    empty[stage].await(empty_parity<kStages>(count));
#pragma unroll
    for (int n = 0; n < kRounds; ++n) {
      if (32 * n + lane >= kOther) break;
      lse_to[stage][32 * n + lane] = lse[n];
      delta_to[stage][32 * n + lane] = delta[n];
    }
    full[stage].arrive();
  }
}

// The pairs of a block that do not see each other, for a thread's two lines `line` and `line` + 8 of the tile and its
// columns from `other` on.
template <bool kOfKeys>
struct HiddenPairs {
  LineSight sight[2];

  __device__ HiddenPairs(const Reach& reach, const GradientTile& tile, int line, int other)
      : sight{tile.sight_of<kOfKeys>(reach, tile.line + line, other),
              tile.sight_of<kOfKeys>(reach, tile.line + line + 8, other)} {}

  // Zeroes those pairs in x, which is laid out as wgmma has it.
  template <int kCount>
  __device__ void clear(float (&x)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      x[i] = sight[i / 2 % 2].template sees<kOfKeys>(2 * (i / 4 * 4) + i % 2) ? x[i] : 0.f;
    }
  }
};

// Stores a thread's two lines, `line` and `line` + 8 of the tile, of sums times the factor.
template <class T, bool kOfKeys, int kCount>
__device__ void store_lines(const GradientTile& tile, int line, const float (&sums)[kCount], const Strided<void>& to,
                            float factor) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int own = tile.line + line + 8 * r;
    const bool exists = own >= 0 && own < tile.lines, written = own < tile.lines_written;
    T* row = static_cast<T*>(to.data) + to.offset(tile.batch, kOfKeys ? tile.kv_head : tile.head, tile.own_begin + own);
#pragma unroll
    for (int j = 0; j < kCount; j += 8) {  // 16 columns
      const std::uint32_t low = pack_operand<T>(sums[j + 2 * r] * factor, sums[j + 2 * r + 1] * factor);
      const std::uint32_t high = pack_operand<T>(sums[j + 4 + 2 * r] * factor, sums[j + 4 + 2 * r + 1] * factor);
      store_pair(row + 2 * j, static_cast<int>(threadIdx.x), written, exists ? low : 0, exists ? high : 0);
    }
  }
}

// Blocks of queries that see some of the keys [line, line + count).
__device__ inline KeyBlocks query_blocks(const Reach& reach, const GradientTile& tile, int count, int per_block) {
  const int key = max(tile.line, 0), last_key = min(tile.line + count, tile.lines) - 1;
  if (last_key < key) return {};
  const bool always = key < reach.first;
  const int first_p = always ? min(key - reach.right, key - reach.first_right) : key - reach.right;
  const int first = max(first_p - tile.offset, 0);
  const int last = always ? tile.other_lines - 1 : min(last_key + reach.left - tile.offset, tile.other_lines - 1);
  if (last < first) return {};
  KeyBlocks blocks;
  blocks.window_last = last / per_block;
  blocks.window_count = blocks.window_last - first / per_block + 1;
  return blocks;
}

template <bool kOfKeys, int kOwn, int kOther>
__device__ GradientTile gradient_tile(const GradientArguments& a, int number) {
  GradientTile tile;
  auto [column, n] = a.order[number];
  if (kOfKeys) n = a.order.row_tiles - 1 - n;  // under a causal mask most queries see the first keys
  const kernels::Integers& cu = kOfKeys ? a.sequences.cu_k : a.sequences.cu_q;
  const std::int64_t own_size = kOfKeys ? a.sequences.keys : a.sequences.queries;
  tile.sequence = a.sequences.packed ? find_sequence(cu, own_size, static_cast<int>(a.sequences.count), n, kOwn, n)
                                     : column / a.order.heads;
  const int head = a.sequences.packed ? column : column - tile.sequence * a.order.heads;
  tile.kv_head = kOfKeys ? head : head / a.heads_per_kv;
  tile.head = kOfKeys ? head * a.heads_per_kv : head;
  const kernels::Sequence s = a.sequences[tile.sequence];
  tile.batch = static_cast<int>(s.batch);
  tile.offset =
      static_cast<int>(std::max<std::int64_t>(-Reach::kLongest, std::min<std::int64_t>(s.offset, Reach::kLongest)));
  const auto queries = static_cast<int>(s.queries), keys = static_cast<int>(s.keys);
  const auto query_begin = static_cast<int>(s.query_begin), key_begin = static_cast<int>(s.key_begin);
  tile.own_begin = kOfKeys ? key_begin : query_begin;
  tile.lines = kOfKeys ? keys : queries;
  // Keys outside the sequence get gradients of 0, unless they belong to another one.
  tile.place = n * kOwn + (a.sequences.packed ? tile.own_begin : 0);
  tile.line = tile.place - tile.own_begin;
  tile.lines_written =
      kOfKeys ? (a.sequences.packed ? keys : static_cast<int>(own_size) - key_begin) : static_cast<int>(s.rows);
  tile.exists = tile.line < tile.lines_written;
  tile.other_begin = kOfKeys ? query_begin : key_begin;
  tile.other_lines = kOfKeys ? queries : keys;
  tile.other_size = static_cast<int>(kOfKeys ? a.sequences.queries : a.sequences.keys);
  if (queries == 0 || keys == 0) return tile;
  if constexpr (kOfKeys) {
    tile.used_end = queries;
    tile.blocks = query_blocks(a.reach, tile, kOwn, kOther);
  } else {
    const kernels::PositionMask<int> mask(a.mask, s);
    const int last_row = min(tile.line + kOwn, queries) - 1;
    if (last_row < tile.line) return tile;
    tile.blocks = key_blocks(mask.keys_of_some(tile.line, last_row), kOther);
    const kernels::KeySet<int> used = mask.keys_of_some(0, queries - 1);
    tile.used_head = used.first_end;
    tile.used_begin = used.begin;
    tile.used_end = used.end;
    if (tile.used_begin <= tile.used_head) tile.used_begin = 0;
  }
  tile.set_open<kOfKeys>(a.reach, kOwn, kOther);
  tile.set_plain(kOther);
  return tile;
}

}  // namespace polyhead::cuda::sm90
