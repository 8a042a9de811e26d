// The team: who runs, what happens when one fails, and that nobody spins afterwards.
#include "core/team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/processes.h"

namespace polyhead {
namespace {

// Items whose work is `each(item)`, whoever does it.
template <class Each>
void for_items(Team& team, std::int64_t items, int members, const Each& each) {
  team.for_each(items, 1, members, [&](int) { return [&](std::int64_t item) { each(item); }; });
}

TEST(Team, EveryItemIsDoneOnce) {
  Team team(3);
  for (int members = 1; members <= 3; ++members) {
    for (const std::int64_t items : {0, 1, 2, 7, 1000}) {
      for (const std::int64_t grain : {1, 3, 2000}) {
        for (const bool in_shares : {false, true}) {
          std::vector<int> done(static_cast<std::size_t>(items), 0);
          std::vector<int> made(3, 0);  // works per member
          const auto make_work = [&](int member) {
            ++made[static_cast<std::size_t>(member)];
            return [&](std::int64_t item) { ++done[static_cast<std::size_t>(item)]; };
          };
          in_shares ? team.for_shares(items, grain, members, make_work)
                    : team.for_each(items, grain, members, make_work);
          ASSERT_EQ(made[0], 1);  // the caller
          // Who comes late to a round may take two places of the next.
          ASSERT_LE(made[1] + made[2], members - 1);
          ASSERT_LE(made[2], members < 3 ? 0 : 2);
          ASSERT_EQ(done, std::vector<int>(static_cast<std::size_t>(items), 1)) << items << " by " << grain;
        }
      }
    }
  }
}

TEST(Team, MembersWorkAtTheSameTime) {
  Team team(3);
  std::atomic<int> arrived{0};
  // Ends only if all three are inside together.
  for_items(team, 3, 3, [&](std::int64_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(Team, AMemberBeginsWithItsShareAndIsTheSameThreadEveryTime) {
  Team team(3);
  std::vector<std::thread::id> threads(3);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> arrived{0};
    team.for_shares(9, 1, 3, [&](int member) {
      return [&, member, first = true](std::int64_t item) mutable {
        if (!std::exchange(first, false)) return;
        EXPECT_EQ(item, 3 * member);
        arrived.fetch_add(1);
        while (arrived.load() < 3) std::this_thread::yield();  // so that nobody begins with what another left
        std::thread::id& thread = threads[static_cast<std::size_t>(member)];
        EXPECT_TRUE(round == 0 || thread == std::this_thread::get_id()) << "member " << member;
        thread = std::this_thread::get_id();
      };
    });
    for_items(team, 2, 2, [](std::int64_t) {});  // a round of some, in between
  }
}

TEST(Team, NoMoreWorkAtOnceThanThereAreProcessors) {
  const int before = test::thread_count();
  Team team(8, 3);
  EXPECT_EQ(team.threads(), 8);
  std::atomic<int> inside{0}, most{0};
  for_items(team, 200, 8, [&](std::int64_t) {
    const int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --inside;
  });
  EXPECT_EQ(most.load(), 3);
  EXPECT_EQ(test::thread_count(), before + 2);
}

// A round of few members wakes no more than those, and loses none of them.
TEST(Team, FewOfManyWorkTogether) {
  Team team(8);
  for (int round = 0; round < 200; ++round) {
    const int members = 2 + round % 7;
    std::atomic<int> arrived{0};
    for_items(team, members, members, [&](std::int64_t) {
      arrived.fetch_add(1);
      while (arrived.load() < members) std::this_thread::yield();
    });
    ASSERT_EQ(arrived.load(), members);
  }
}

TEST(Team, ManyShortRoundsLoseNothing) {
  Team team(4);
  for (int round = 0; round < 5000; ++round) {
    std::atomic<int> sum{0};
    for_items(team, 4, 4, [&](std::int64_t item) { sum.fetch_add(static_cast<int>(item) + 1); });
    ASSERT_EQ(sum.load(), 10);
  }
}

TEST(Team, AnExceptionReachesTheCallerAndTheTeamGoesOn) {
  Team team(4);
  for (const int members : {1, 4}) {
    for (std::int64_t thrower = 0; thrower < 8; ++thrower) {
      try {
        for_items(team, 8, members, [&](std::int64_t item) {
          if (item == thrower) throw std::runtime_error("item " + std::to_string(item));
        });
        FAIL() << "item " << thrower << " threw in vain";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "item " + std::to_string(thrower));
      }
      std::atomic<int> runs{0};
      for_items(team, 8, members, [&](std::int64_t) { runs.fetch_add(1); });
      EXPECT_EQ(runs.load(), 8);
    }
  }
}

TEST(Team, StartsNoThreadBeforeItIsNeeded) {
  const int before = test::thread_count();
  {
    Team team(3);
    for_items(team, 5, 1, [](std::int64_t) {});
    EXPECT_EQ(test::thread_count(), before);
    for_items(team, 5, 2, [](std::int64_t) {});
    EXPECT_EQ(test::thread_count(), before + 2);
  }
  EXPECT_EQ(test::thread_count(), before);
}

TEST(Team, SleepsBetweenCalls) {
  Team team(4);
  for_items(team, 4, 4, [](std::int64_t) {});
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
