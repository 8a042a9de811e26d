// Which tiles a forward pass consists of, in which order, and which blocks of keys each one walks over.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/mask.h"
#include "kernels/sequences.h"

namespace polyhead::cuda::sm90 {

// Blocks of keys that a tile visits: those of the window from the last to the first, then those of the always-seen keys
// below the window.
struct KeyBlocks {
  int window_last = -1, window_count = 0, head_last = -1, head_count = 0;

  __host__ __device__ int count() const { return window_count + head_count; }
  __host__ __device__ int operator[](int n) const {
    return n < window_count ? window_last - n : head_last - (n - window_count);
  }
};

// seen: by some row of the tile.
__host__ __device__ inline KeyBlocks key_blocks(const kernels::KeySet<int>& seen, int keys_per_block) {
  KeyBlocks blocks;
  int below = 0;  // blocks before the window's first
  if (seen.begin < seen.end) {
    blocks.window_last = (seen.end - 1) / keys_per_block;
    below = seen.begin / keys_per_block;
    blocks.window_count = blocks.window_last - below + 1;
  }
  const int head_blocks = seen.first_end > 0 ? (seen.first_end - 1) / keys_per_block + 1 : 0;
  blocks.head_count = seen.begin < seen.end && head_blocks > below ? below : head_blocks;
  blocks.head_last = blocks.head_count - 1;
  return blocks;
}

// All rows of a tile see all of blocks number first to last of its walk: these need no mask, and hold no key that is
// hidden from all.
struct OpenBlocks {
  int first = 0, last = -1;
};

// seen: by all rows of the tile.
__host__ __device__ inline OpenBlocks open_blocks(const kernels::KeySet<int>& seen, const KeyBlocks& blocks,
                                                  int keys_per_block) {
  const int begin = (seen.begin + keys_per_block - 1) / keys_per_block, end = seen.end / keys_per_block;
  const int first = blocks.window_last - (end - 1), last = blocks.window_last - begin;
  return {first > 0 ? first : 0, last < blocks.window_count - 1 ? last : blocks.window_count - 1};
}

// The number, in the walk, of the window's block that has the key; it may lie beyond the window's ends.
__host__ __device__ inline int number_of(const KeyBlocks& blocks, int key, int keys_per_block) {
  return blocks.window_last - (key >= 0 ? key / keys_per_block : -1);
}

// A tile, kRows queries of one head of one sequence: what the threads that compute it need to know.
struct Tile {
  int head = -1;  // -1: there are no more
  int sequence = 0, batch = 0, kv_head = 0;
  int row = 0;                // the tile's first, counted in the sequence
  int queries = 0, rows = 0;  // of the sequence: those that exist, and those that are written
  int query_begin = 0, key_begin = 0, keys = 0;
  int offset = 0;  // query i is at position i + offset
  int seen_head = 0, seen_begin = 0,
      seen_end = 0;                  // some query of the sequence sees [0, seen_head) and [seen_begin, seen_end)
  float gate = 1, sink = -INFINITY;  // the sink's logit in powers of 2
  float slope = 0;                   // alibi's, in powers of 2
  KeyBlocks blocks;
  OpenBlocks open;
  int plain_first = 1;  // of the open blocks, the first whose predecessor in the walk needs no cleaning
  // For statistics: the blocks that hold the keys at and next to some row's position, and the first that may hold a
  // row's first visible key.
  int near_first = 0, near_last = -1, edge_first = 0;
};

// Does block number n hold keys that no query of the sequence sees? Behind the tensor's end the copy engine puts 0.
__host__ __device__ inline bool needs_cleaning(const Tile& tile, int n, int keys_per_block, std::int64_t tensor_keys) {
  const int begin = tile.blocks[n] * keys_per_block, end = begin + keys_per_block;
  if (end <= tile.seen_head) return false;
  return begin < tile.seen_begin || (end > tile.seen_end && tile.key_begin + tile.seen_end < tensor_keys);
}

// Tiles are numbered section by section; in a section, rows from the last down to the first (under a causal mask the
// longest first), and for each of them the section's heads side by side. A section has as many heads as L2 can hold the
// keys and values of.
struct TileOrder {
  int tiles = 0;      // in all
  int heads = 0;      // H
  int columns = 0;    // sequences * heads, or heads where the batch is packed
  int row_tiles = 0;  // per column
  int columns_per_section = 1;

  struct Place {
    int column, row_tile;
  };
  __host__ __device__ Place operator[](int tile) const {
    const int per_section = columns_per_section * row_tiles;
    const int section = tile / per_section, within = tile - section * per_section;
    const int first = section * columns_per_section;
    const int width = columns - first < columns_per_section ? columns - first : columns_per_section;
    const int step = within / width;
    return {first + within - step * width, row_tiles - 1 - step};
  }
};

// Packed sequences share one axis of `size` places. Sequence n gets the slots from cu[n] / per_tile + n on, up to where
// the next begins: never fewer than it needs, and found by bisection without a list of tiles.
__host__ __device__ inline int first_slot(const kernels::Integers& cu, std::int64_t size, int n, int per_tile) {
  return static_cast<int>(cu.within(n, 0, size, 0) / per_tile) + n;
}
// The sequence that has the slot, and which of its tiles that is.
__device__ inline int find_sequence(const kernels::Integers& cu, std::int64_t size, int sequences, int slot,
                                    int per_tile, int& tile) {
  int low = 0, high = sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (first_slot(cu, size, middle, per_tile) <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  tile = slot - first_slot(cu, size, low, per_tile);
  return low;
}
__device__ inline int find_sequence(const kernels::Sequences& sequences, int slot, int rows_per_tile, int& row_tile) {
  return find_sequence(sequences.cu_q, sequences.queries, static_cast<int>(sequences.count), slot, rows_per_tile,
                       row_tile);
}

}  // namespace polyhead::cuda::sm90
