// The team: who runs, what happens when one fails, and that nobody spins afterwards.
#include "core/team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/processes.h"

namespace polyhead {
namespace {

TEST(Team, EveryMemberRunsOnceARound) {
  Team team(4);
  for (int members = 1; members <= 4; ++members) {
    for (int round = 0; round < 200; ++round) {
      std::vector<int> runs(4, 0);  // one element a member: no two write the same
      team.run(members, [&](int member) { ++runs[static_cast<std::size_t>(member)]; });
      ASSERT_EQ(std::accumulate(runs.begin(), runs.end(), 0), members);
      for (int member = 0; member < members; ++member) ASSERT_EQ(runs[static_cast<std::size_t>(member)], 1);
    }
  }
}

TEST(Team, MembersRunAtTheSameTime) {
  Team team(3);
  std::atomic<int> arrived{0};
  // Ends only if all three are inside together.
  team.run(3, [&](int) {
    arrived.fetch_add(1);
    while (arrived.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(Team, EveryItemIsDoneOnce) {
  Team team(3);
  for (const std::int64_t items : {0, 1, 2, 7, 1000}) {
    for (const std::int64_t grain : {1, 3, 2000}) {
      std::vector<int> done(static_cast<std::size_t>(items), 0);
      std::vector<int> made(3, 0);  // works per member
      team.for_each(items, grain, 3, [&](int member) {
        ++made[static_cast<std::size_t>(member)];
        return [&](std::int64_t item) { ++done[static_cast<std::size_t>(item)]; };
      });
      ASSERT_EQ(made, std::vector<int>(3, 1));
      ASSERT_EQ(done, std::vector<int>(static_cast<std::size_t>(items), 1)) << items << " by " << grain;
    }
  }
}

TEST(Team, AnExceptionReachesTheCallerAndTheTeamGoesOn) {
  Team team(4);
  for (int thrower = 0; thrower < 4; ++thrower) {
    try {
      team.run(4, [&](int member) {
        if (member == thrower) throw std::runtime_error("member " + std::to_string(member));
      });
      FAIL() << "member " << thrower << " threw in vain";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "member " + std::to_string(thrower));
    }
    std::atomic<int> runs{0};
    team.run(4, [&](int) { runs.fetch_add(1); });
    EXPECT_EQ(runs.load(), 4);
  }
  EXPECT_THROW(team.run(4, [](int) { throw std::runtime_error("all"); }), std::runtime_error);
  EXPECT_THROW(team.run(1, [](int) { throw std::runtime_error("alone"); }), std::runtime_error);
  EXPECT_NO_THROW(team.run(4, [](int) {}));
}

TEST(Team, StartsNoThreadBeforeItIsNeeded) {
  const int before = test::thread_count();
  {
    Team team(3);
    team.run(1, [](int) {});
    EXPECT_EQ(test::thread_count(), before);
    team.run(2, [](int) {});
    EXPECT_EQ(test::thread_count(), before + 2);
  }
  EXPECT_EQ(test::thread_count(), before);
}

TEST(Team, SleepsBetweenCalls) {
  Team team(4);
  team.run(4, [](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = test::cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(test::cpu_seconds() - before, 0.010);
}

TEST(Scratch, GrowsAndStaysAligned) {
  Team team(2);
  Scratch& scratch = team.scratch(1);
  std::byte* small = scratch.reserve(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(scratch.reserve(50), small);
  std::byte* large = scratch.reserve(100000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % 64, 0u);
  large[99999] = std::byte{1};
}

}  // namespace
}  // namespace polyhead
