// How long it will take, on a clock that the test turns.
#include "cli/progress.h"

#include <gtest/gtest.h>

#include <csignal>

#include "cli/signals.h"

namespace polyhead::cli {
namespace {

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() { testing::internal::CaptureStderr(); }
  Progress progress(const char* what, std::int64_t total, std::int64_t done, Progress::Unit unit) {
    return {what, total, done, unit, [this] { return Progress::Clock::time_point(time_); }};
  }
  void turn_to(double seconds) {
    time_ = std::chrono::duration_cast<Progress::Clock::duration>(std::chrono::duration<double>(seconds));
  }
  static std::string said() { return testing::internal::GetCapturedStderr(); }

  Progress::Clock::duration time_{0};
};

TEST_F(ProgressTest, ExtrapolatesFromTheWorkDoneSinceItsFirstStep) {
  Progress study = progress("study", 1000, 200, Progress::Unit::percent);
  const auto update = [&](double at, std::int64_t done) {
    turn_to(at);
    study.update(done, "");
  };
  update(0, 201);   // says little of what is to come
  update(6, 281);   // 80 in 6 s, and 719 to go
  update(8, 500);   // too soon for another line
  update(12, 601);  // 400 in 12 s, and 399 to go
  update(30, 1000);
  update(31, 1000);  // once is enough
  EXPECT_EQ(said(), "study 28 %, 0:54 to go\nstudy 60 %, 0:12 to go\nstudy 100 %\n");
}

TEST_F(ProgressTest, CountsAndNotes) {
  Progress copy = progress("copy", 600, 0, Progress::Unit::count);
  copy.update(1, "loss 3");
  turn_to(10);
  copy.update(2, "loss 1.5");
  EXPECT_EQ(said(), "copy 2/600, loss 1.5, 1:39:40 to go\n");
  EXPECT_EQ(clock_text(3725), "1:02:05");
  EXPECT_EQ(clock_text(59.6), "1:00");
}

// A step may take a minute; somebody who has pressed Ctrl-C sees that it was heard.
TEST_F(ProgressTest, AnswersASignal) {
  {
    const Signals signals;
    Progress prune = progress("iterative", 270, 0, Progress::Unit::count);
    prune.update(1, "accuracy 20 %");
    std::raise(SIGTERM);
    turn_to(10);
    prune.update(2, "accuracy 19 %");
  }
  const Signals none_noted;
  EXPECT_EQ(said(), "iterative 2/270, stopping; Ctrl-C again ends at once, 44:40 to go\n");
}

// Steps that come together are one; what came before them may have been anything.
TEST_F(ProgressTest, WhatComesBeforeTheFirstStepsIsNoStep) {
  Progress heads = progress("heads", 10, 0, Progress::Unit::count);
  turn_to(100);
  heads.update(1, "");
  turn_to(100.05);
  heads.update(2, "");
  turn_to(106);
  heads.update(4, "");  // 2 in 6 s, and 6 to go
  EXPECT_EQ(said(), "heads 1/10, 1:40 so far\nheads 4/10, 0:18 to go\n");
}

// The first steps of a run are slow; an hour that shrinks to minutes helps nobody.
TEST_F(ProgressTest, GivesNoEstimateInTheFirstSeconds) {
  Progress copy = progress("copy", 600, 0, Progress::Unit::count);
  turn_to(1);
  copy.update(1, "");
  turn_to(2.9);
  copy.update(2, "");
  turn_to(8);
  copy.update(71, "");  // 70 in 7 s, and 529 to go
  EXPECT_EQ(said(), "copy 2/600, 0:03 so far\ncopy 71/600, 0:53 to go\n");
}

TEST_F(ProgressTest, TwoSecondsDoNotPassWithoutAWord) {
  Progress loading = progress("loading run", 0, 0, Progress::Unit::count);
  for (int tenths = 0; tenths < 80; ++tenths) {
    turn_to(0.1 * tenths);
    if (tenths == 30) loading.note("weights");
    loading.tick();
  }
  EXPECT_EQ(said(), "loading run, 0:02 so far\nloading run, weights, 0:07 so far\n");
}

TEST_F(ProgressTest, GoesOnWhenAllStepsAreDone) {
  Progress study = progress("study", 3, 0, Progress::Unit::percent);
  study.update(3, "");
  turn_to(4.9);
  study.tick();
  turn_to(5);
  study.tick();
  EXPECT_EQ(said(), "study 100 %\nstudy 100 %, 0:05 so far\n");
}

}  // namespace
}  // namespace polyhead::cli
