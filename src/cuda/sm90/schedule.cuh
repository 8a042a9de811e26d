// The scheduler of the forward kernel: a warp of every block of threads that claims tiles and says what is in them.
#pragma once

#include "cuda/device/barrier.cuh"
#include "cuda/sm90/arguments.h"

namespace polyhead::cuda::sm90 {

inline constexpr int kWarpgroup = 128;

// How many buffers of a ring have been used so far: says which is next and the parity of its phase.
using Count = unsigned;
template <int kStages>
__device__ inline std::uint32_t full_parity(Count count) {
  return count / kStages % 2;
}
template <int kStages>
__device__ inline std::uint32_t empty_parity(Count count) {
  return full_parity<kStages>(count) ^ 1;
}

// Tiles on their way from the scheduler to the others.
struct TileRing {
  static constexpr int kSlots = 4;
  device::Barrier full[kSlots], empty[kSlots];
  Tile tile[kSlots];
};

template <class T, int D, int kRows, int kKeys, bool kStatistics>
struct Scheduler {
  const ForwardArguments& a;

  // Claims a tile only when all but a.tiles_ahead of the earlier ones are done: claiming more would leave other blocks
  // idle at the end, claiming fewer would make this one wait where tiles are short. Tiles without keys to see are
  // cleared here: a consumer finishes a tile only when it has the next one to compute.
  __device__ void run(TileRing& ring) const {
    Count count = 0;
    for (int number = static_cast<int>(blockIdx.x);; number = claim()) {
      const Tile tile = tile_at(number);
      if (tile.head >= 0 && tile.blocks.count() == 0) {
        if (a.open_heads == nullptr || tile.gate != 0) clear(tile);
        continue;
      }
      if (threadIdx.x % 32 == 0) {
        ring.tile[count % TileRing::kSlots] = tile;
        ring.full[count % TileRing::kSlots].arrive();
      }
      if (tile.head < 0) return;
      if (const Count ahead = static_cast<Count>(a.tiles_ahead); ++count > ahead) {
        const Count done = count - ahead - 1;
        ring.empty[done % TileRing::kSlots].await(full_parity<TileRing::kSlots>(done));
      }
    }
  }

  __device__ int claim() const {
    int number = 0;
    if (threadIdx.x % 32 == 0) {
      number = atomicAdd(a.next_tile, 1);
      if (number == a.order.tiles - 1) *a.next_tile = 0;  // the last claim of all
    }
    return __shfl_sync(~0u, number, 0) + static_cast<int>(gridDim.x);
  }

  __device__ Tile tile_at(int number) const {
    Tile tile;
    if (number >= a.order.tiles) return tile;
    const auto [column, row_tile] = a.order[number];
    int tile_of_sequence = row_tile;
    tile.sequence =
        a.sequences.packed ? find_sequence(a.sequences, row_tile, kRows, tile_of_sequence) : column / a.order.heads;
    tile.head = a.sequences.packed ? column : column - tile.sequence * a.order.heads;
    tile.kv_head = tile.head / a.heads_per_kv;
    const kernels::Sequence s = a.sequences[tile.sequence];
    tile.batch = static_cast<int>(s.batch);
    tile.row = tile_of_sequence * kRows;
    tile.queries = static_cast<int>(s.queries);
    tile.rows = static_cast<int>(s.rows);
    tile.query_begin = static_cast<int>(s.query_begin);
    tile.key_begin = static_cast<int>(s.key_begin);
    tile.keys = static_cast<int>(s.keys);
    tile.offset =
        static_cast<int>(std::max<std::int64_t>(-Reach::kLongest, std::min<std::int64_t>(s.offset, Reach::kLongest)));
    if (a.sink_logit != nullptr) tile.sink = a.sink_logit[tile.head * a.sink_head] * kLog2E;
    tile.slope = a.options.alibi.at(tile.sequence, tile.head, 0) * kLog2E;
    tile.gate = a.gates.at(tile.sequence, tile.head, 1);
    const bool needed = tile.gate != 0 || a.describe_closed;
    const int last_row = min(tile.row + kRows, tile.queries) - 1;
    if (last_row < tile.row || !needed) return tile;
    const kernels::PositionMask<int> mask(a.mask, s);
    tile.blocks = key_blocks(mask.keys_of_some(tile.row, last_row), kKeys);
    tile.open = open_blocks(mask.keys_of_all(tile.row, last_row), tile.blocks, kKeys);
    const kernels::KeySet<int> seen = mask.keys_of_some(0, tile.queries - 1);
    tile.seen_head = seen.first_end;
    tile.seen_begin = seen.begin;
    tile.seen_end = seen.end;
    if (tile.seen_begin <= tile.seen_head) tile.seen_begin = 0;
    if constexpr (kStatistics) set_watch(tile, last_row);
    tile.plain_first = max(tile.open.first, 1);
    if (needs_cleaning(tile, tile.plain_first - 1, kKeys, a.sequences.keys)) ++tile.plain_first;
    return tile;
  }

  // Which blocks of the tile hold watched keys. Where a row's first visible key is one of those that are always seen,
  // it is key 0, in the walk's last block.
  __device__ void set_watch(Tile& tile, int last_row) const {
    const int p = tile.row + tile.offset, p_last = last_row + tile.offset;
    tile.near_first = number_of(tile.blocks, p_last + 1, kKeys);
    tile.near_last = number_of(tile.blocks, p - 1, kKeys);
    const RowSight last(a.reach, p_last, tile.keys);
    const int edge = tile.blocks.head_count > 0 ? tile.blocks.count() - 1 : number_of(tile.blocks, last.first(), kKeys);
    tile.edge_first = min(edge, tile.blocks.count() - 1);
  }

  // Clears rows that see nothing, or are of a head whose gate is 0.
  __device__ void clear(const Tile& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int row = tile.row + lane / 8; row < min(tile.row + kRows, tile.rows); row += 4) {
      T* to = static_cast<T*>(a.output.data) + a.output.offset(tile.batch, tile.head, tile.query_begin + row);
      for (int c = lane % 8 * 8; c < D; c += 64) *reinterpret_cast<uint4*>(to + c) = uint4{0, 0, 0, 0};
      if (a.lse.data == nullptr || lane % 8 != 0) continue;
      a.lse.data[a.lse.offset(tile.batch, tile.head, tile.query_begin + row)] =
          row < tile.queries ? tile.sink / kLog2E : -INFINITY;
    }
  }
};

}  // namespace polyhead::cuda::sm90
