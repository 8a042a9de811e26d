// How long a call takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace polyhead::cli {

struct Timing {
  double seconds;
  std::int64_t runs;
};

// The median of as many calls as fit into the budget, at least three. The first is a warm-up, and counts only if it is
// so long that warming up does not matter.
template <class Clock = std::chrono::steady_clock, class Call>
Timing time(const Call& call) {
  constexpr double budget = 0.4;
  constexpr std::size_t least = 3, most = 2000;
  const auto seconds = [&] {
    const auto begin = Clock::now();
    call();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::vector<double> runs;
  double spent = seconds();
  if (spent > budget) runs.push_back(spent);
  while (runs.size() < least || (runs.size() < most && spent < budget)) {
    runs.push_back(seconds());
    spent += runs.back();
  }
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end());
  return {*middle, static_cast<std::int64_t>(runs.size())};
}

}  // namespace polyhead::cli
