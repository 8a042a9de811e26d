// The team and the dq wave on a processor that does the worst it may (reordered/core/word.h), with more threads than
// any machine has processors for.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "core/team.h"
#include "core/watched.h"

namespace polyhead {
namespace {

using test::Ending;
using test::repeat_watched;

constexpr std::chrono::duration<double> kAWhile{0.4}, kAMinute{60};

// As the backward pass does it: blocks are claimed in order and add to every panel in the order of the blocks.
bool wave(Team& team, int spins) {
  constexpr std::size_t kPanels = 4;
  const std::int64_t blocks = 2 * team.threads();
  const auto done = std::make_unique<Awaited[]>(kPanels);
  std::vector<std::int64_t> dq(kPanels);
  team.for_each(blocks, 1, team.threads(), [&](int) {
    return [&](std::int64_t block) {
      for (std::size_t panel = 0; panel < kPanels; ++panel) {
        done[panel].until(spins, [block](std::uint32_t added) { return added == block; });
        if (dq[panel] == block) ++dq[panel];
        done[panel].set(static_cast<std::uint32_t>(block + 1));
      }
    };
  });
  return dq == std::vector<std::int64_t>(kPanels, blocks);
}

// Rounds of all sizes, the latter half of them in a burst.
bool rounds(Team& team) {
  bool right = true;
  for (int round = 0; round < 100; ++round) {
    if (round == 50) team.begin_burst();
    const std::int64_t items = team.threads();
    std::vector<int> done(static_cast<std::size_t>(items));
    team.for_each(items, 1, 2 + round % (team.threads() - 1),
                  [&](int) { return [&](std::int64_t item) { ++done[static_cast<std::size_t>(item)]; }; });
    right = right && done == std::vector<int>(static_cast<std::size_t>(items), 1);
  }
  team.end_burst();
  return right;
}

// Work that ends only when all members are at it.
bool together(Team& team) {
  const auto all = static_cast<std::uint32_t>(team.threads());
  Awaited there;
  team.for_each(team.threads(), 1, team.threads(), [&](int) {
    return [&](std::int64_t) {
      there.add(1);
      there.until(0, [all](std::uint32_t members) { return members == all; });
    };
  });
  return there.now() == all;
}

class Stress : public testing::TestWithParam<int> {
 protected:
  ~Stress() override { Word::honours_order = true; }
};

TEST_P(Stress, TheWaveNeverHangs) {
  const auto work = [&] {
    Team team(GetParam());
    return wave(team, 0) && wave(team, 20) && wave(team, 1000);
  };
  EXPECT_EQ(repeat_watched(kAWhile, work), Ending::right);
}

TEST_P(Stress, TheTeamNeverHangs) {
  const auto work = [&] {
    Team team(GetParam());
    return rounds(team) && together(team);
  };
  EXPECT_EQ(repeat_watched(kAWhile, work), Ending::right);
}

INSTANTIATE_TEST_SUITE_P(Threads, Stress, testing::Values(2, 3, 4, 8, 16, 32, 64));

// These tests would have seen it.
TEST_F(Stress, TheOldWaveHangs) {
  Word::honours_order = false;
  const auto work = [] {
    Team team(4);
    return wave(team, 0);
  };
  EXPECT_EQ(repeat_watched(kAMinute, work), Ending::hung);
}

// On x86 an addition is a fence by itself; the language promises it only for one that is sequentially consistent.
TEST_F(Stress, TheOldTeamHangs) {
  Word::honours_order = false;
  const auto work = [] {
    Team team(4);
    return rounds(team);
  };
  EXPECT_EQ(repeat_watched(kAMinute, work), Ending::hung);
}

}  // namespace
}  // namespace polyhead
