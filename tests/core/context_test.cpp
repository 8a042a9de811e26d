// The context: its team, in several threads and on both sides of a fork.
#include "polyhead/context.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "core/processes.h"
#include "core/processors.h"
#include "cpu/executor.h"
#include "polyhead/error.h"

namespace polyhead {
namespace {

Team& team_of(Context& context) { return static_cast<cpu::CpuExecutor&>(context.executor()).team(); }

// A call as ops make it: takes its turn, then works on the numbers below `count` with all members.
std::int64_t sum_below(Context& context, std::int64_t count) {
  Team& team = team_of(context);
  const std::lock_guard lock(team.turn);
  std::atomic<std::int64_t> sum{0};
  team.for_each(count, 4, context.threads(), [&](int) { return [&](std::int64_t item) { sum.fetch_add(item); }; });
  return sum.load();
}

TEST(Context, CountsItsThreads) {
  EXPECT_EQ(Context(3).threads(), 3);
  EXPECT_EQ(Context().threads(), usable_processors());
  EXPECT_THROW(Context(-1), Error);
  EXPECT_THROW(Context(1000000), Error);
}

TEST(Context, StartsNoThreadWhenMade) {
  const int before = test::thread_count();
  Context context(4);
  EXPECT_EQ(test::thread_count(), before);
  EXPECT_EQ(sum_below(context, 100), 4950);
  EXPECT_EQ(test::thread_count(), before + std::min(4, usable_processors()) - 1);
}

TEST(Context, Moves) {
  Context first(2);
  const Context& left = first;
  EXPECT_EQ(sum_below(first, 10), 45);
  Context second = std::move(first);
  EXPECT_EQ(sum_below(second, 10), 45);
  // What is left of the first still answers.
  EXPECT_EQ(left.device(), Device{});
  EXPECT_EQ(left.threads(), 0);
  EXPECT_EQ(left.allocator(), host_allocator());
  EXPECT_EQ(left.precision(), Precision::f32);
  second = Context(3);
  EXPECT_EQ(second.threads(), 3);
  EXPECT_EQ(sum_below(second, 10), 45);
}

TEST(Context, KeepsWhatProductsMayRound) {
  Context context(1);
  EXPECT_EQ(context.precision(), Precision::f32);
  context.set_precision(Precision::tf32);
  Context other = std::move(context);
  EXPECT_EQ(other.precision(), Precision::tf32);
  EXPECT_THROW(context.set_precision(Precision::f32), Error);
}

TEST(Context, ServesSeveralThreads) {
  Context context(3);
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int call = 0; call < 50; ++call) {
        const std::int64_t count = 10 * caller + call;
        if (sum_below(context, count) == count * (count - 1) / 2) right.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right.load(), 200);
}

// Runs `work` in a child process; true if it returned true there. An alarm ends a child that hangs.
template <class Work>
bool true_in_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Context, SurvivesFork) {
  Context context(3);
  EXPECT_EQ(sum_below(context, 100), 4950);
  EXPECT_TRUE(true_in_child([&] { return sum_below(context, 100) == 4950; }));
  EXPECT_EQ(sum_below(context, 100), 4950);  // and the parent goes on
  // A child's child, and a context that had no team before the fork.
  Context fresh(3);
  EXPECT_TRUE(true_in_child([&] {
    return sum_below(context, 10) == 45 && sum_below(fresh, 10) == 45 &&
           true_in_child([&] { return sum_below(context, 100) == 4950 && sum_below(fresh, 10) == 45; });
  }));
}

TEST(Context, SurvivesAForkInTheMiddleOfACall) {
  Context context(3);
  std::atomic<bool> inside{false}, done{false};
  std::thread caller([&] {
    Team& team = team_of(context);
    const std::lock_guard lock(team.turn);
    team.for_each(3, 1, 3, [&](int) {
      return [&](std::int64_t) {
        inside.store(true);
        while (!done.load()) std::this_thread::yield();
      };
    });
  });
  while (!inside.load()) std::this_thread::yield();
  EXPECT_TRUE(true_in_child([&] { return sum_below(context, 100) == 4950; }));
  done.store(true);
  caller.join();
  EXPECT_EQ(sum_below(context, 100), 4950);
}

TEST(Context, AChildMayDestroyWhatItInherited) {
  auto context = std::make_unique<Context>(3);
  EXPECT_EQ(sum_below(*context, 10), 45);
  EXPECT_TRUE(true_in_child([&] {
    context.reset();
    return true;
  }));
}

}  // namespace
}  // namespace polyhead
