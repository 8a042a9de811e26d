// Rows shared out among the team in blocks, for ops that treat every row alike.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/team.h"

namespace polyhead::cpu {

// Blocks of rows whose number depends on the problem alone, so that sums over blocks have the same bits for any team.
struct RowBlocks {
  std::int64_t rows, size, count;

  // A block is worth about 16384 numbers; a thread is worth waking for two of them.
  RowBlocks(std::int64_t row_count, std::int64_t columns)
      : rows(row_count),
        size(std::clamp<std::int64_t>(16384 / std::max<std::int64_t>(columns, 1), 1, 256)),
        count((rows + size - 1) / size) {}
  std::int64_t begin(std::int64_t block) const { return block * size; }
  std::int64_t end(std::int64_t block) const { return std::min(rows, (block + 1) * size); }
};

// work(block) for every block. A member has the same rows in one op as in the next.
template <class Work>
void for_blocks(Team& team, const RowBlocks& blocks, const Work& work) {
  const auto members = static_cast<int>(std::clamp<std::int64_t>(blocks.count / 2, 1, team.threads()));
  team.for_shares(blocks.count, 1, members, [&](int) { return [&](std::int64_t block) { work(block); }; });
}

// work(row) for every row.
template <class Work>
void for_rows(Team& team, const RowBlocks& blocks, const Work& work) {
  for_blocks(team, blocks, [&](std::int64_t block) {
    for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) work(row);
  });
}

}  // namespace polyhead::cpu
