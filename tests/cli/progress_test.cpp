// How long it will take, on a clock that the test turns.
#include "cli/progress.h"

#include <gtest/gtest.h>

namespace polyhead::cli {
namespace {

TEST(Progress, ExtrapolatesFromTheWorkDoneSinceItBegan) {
  std::chrono::seconds seconds{0};
  testing::internal::CaptureStderr();
  {
    Progress progress("study", 1000, 200, Progress::Unit::percent,
                      [&] { return Progress::Clock::time_point(seconds); });
    const auto update = [&](int at, std::int64_t done) {
      seconds = std::chrono::seconds(at);
      progress.update(done, "");
    };
    update(0, 201);   // says little of what is to come
    update(6, 280);   // 80 in 6 s, and 720 to go
    update(8, 500);   // too soon for another line
    update(12, 600);  // 400 in 12 s, and 400 to go
    update(30, 1000);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "study 28 %, 0:54 to go\nstudy 60 %, 0:12 to go\nstudy 100 %\n");
}

TEST(Progress, CountsAndNotes) {
  std::chrono::seconds seconds{0};
  testing::internal::CaptureStderr();
  Progress progress("copy", 600, 0, Progress::Unit::count, [&] { return Progress::Clock::time_point(seconds); });
  progress.update(1, "loss 3");
  seconds = std::chrono::seconds(10);
  progress.update(2, "loss 1.5");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "copy 2/600, loss 1.5, 49:50 to go\n");
  EXPECT_EQ(clock_text(3725), "1:02:05");
  EXPECT_EQ(clock_text(59.6), "1:00");
}

}  // namespace
}  // namespace polyhead::cli
