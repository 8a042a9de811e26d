// How many members of a team a call is worth.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/team.h"

namespace polyhead::cpu {

// Below this many multiply-adds, or numbers moved, a second thread costs more than it brings: waking one takes
// microseconds.
inline constexpr double kWorkPerThread = 4e5, kMovedPerThread = 5e4;

// Members for work that is worth so many threads.
inline int members_for(const Team& team, double threads_worth) {
  return std::min(team.threads(), static_cast<int>(std::min(threads_worth, 1024.0)) + 1);
}

struct Split {
  int members;
  std::int64_t grain;  // items that a member claims at a time
};

// How a team shares items that take `work` multiply-adds together.
inline Split split_of(const Team& team, std::int64_t items, double work) {
  const auto members = static_cast<int>(std::clamp<std::int64_t>(items, 1, members_for(team, work / kWorkPerThread)));
  const auto count = static_cast<double>(items);
  const double grain = std::clamp(count * kWorkPerThread / 4 / (work + 1), 1.0, std::max(count / (4 * members), 1.0));
  return {members, static_cast<std::int64_t>(grain)};
}

}  // namespace polyhead::cpu
