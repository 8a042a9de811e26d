// How many copies of dq the backward pass sums in.
#pragma once

#include <algorithm>
#include <cstdint>

namespace polyhead::cpu {

// Few long heads get several copies, so that threads rarely wait for each other: with one copy all go at the pace of
// the slowest processor. `heads`: of keys, of all sequences; `blocks`: of keys that a panel may see; `numbers`: of one
// copy. The number of threads has no say, since the order of a sum decides its bits.
constexpr std::int64_t copies_of_dq(std::int64_t heads, std::int64_t blocks, std::int64_t numbers) {
  constexpr std::int64_t kMostStrands = 16, kLeastBlocks = 4, kMostNumbers = 1 << 26;
  const std::int64_t wanted = std::min(kMostStrands / std::max<std::int64_t>(heads, 1), blocks / kLeastBlocks);
  return std::max<std::int64_t>(std::min(wanted, kMostNumbers / std::max<std::int64_t>(numbers, 1)), 1);
}

}  // namespace polyhead::cpu
