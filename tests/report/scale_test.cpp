// Ticks that people can read.
#include "report/scale.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

namespace polyhead::report {
namespace {

using Numbers = std::vector<double>;
using Words = std::vector<std::string>;

Words labels(const Numbers& ticks) { return tick_labels(ticks); }

TEST(Ticks, AreNice) {
  EXPECT_EQ(labels(nice_ticks(0, 1, 5)), (Words{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(labels(nice_ticks(0, 2000, 5)), (Words{"0", "500", "1,000", "1,500", "2,000"}));
  EXPECT_EQ(labels(nice_ticks(-0.3, 0.9, 4)), (Words{"−0.5", "0.0", "0.5", "1.0"}));
  EXPECT_EQ(labels(nice_ticks(0, 3.1e6, 4)), (Words{"0", "1M", "2M", "3M", "4M"}));
  EXPECT_EQ(labels(nice_ticks(0, 2e-5, 2)), (Words{"0", "1e-05", "2e-05"}));
  EXPECT_EQ(labels(nice_ticks(0, 10, 4)), (Words{"0", "5", "10"})) << "what comes whole is not numbered by 2.5";
  EXPECT_EQ(labels(nice_ticks(0, 1, 4)), (Words{"0.00", "0.25", "0.50", "0.75", "1.00"}));
}

TEST(Ticks, HaveTheUnitOfTheLargest) {
  EXPECT_EQ(labels({0, 500'000, 999'999}), (Words{"0", "500,000", "999,999"}));
  EXPECT_EQ(labels({0, 500'000, 1'000'000}), (Words{"0.0", "0.5M", "1.0M"}));
  EXPECT_EQ(labels({0, -1e9}), (Words{"0", "−1G"}));
  EXPECT_EQ(labels({0, 1e-4}), (Words{"0.0000", "0.0001"}));
}

TEST(Ticks, ASingleValueHasRoomAroundIt) {
  for (const double value : {0.0, 1.0, -3.0, 1e12}) {
    const Numbers ticks = nice_ticks(value, value, 5);
    ASSERT_GE(ticks.size(), 2u);
    EXPECT_LT(ticks.front(), value);
    EXPECT_GT(ticks.back(), value);
  }
  EXPECT_EQ(labels(nice_ticks(200, 200, 4)), (Words{"180", "190", "200", "210", "220"})) << "a tenth of its size";
  EXPECT_EQ(labels(nice_ticks(0, 0, 4)), (Words{"−1.0", "−0.5", "0.0", "0.5", "1.0"}));
}

TEST(Ticks, FarOnesDoNotStretchTheAxis) {
  const Range near = range_for(0.02, 0.98, nice_ticks(0.02, 0.98, 5));
  EXPECT_DOUBLE_EQ(near.low, 0);
  EXPECT_DOUBLE_EQ(near.high, 1);
  const Range far = range_for(-10, 110, nice_ticks(-10, 110, 5));  // ticks at -25, 0 ... 125
  EXPECT_DOUBLE_EQ(far.low, -14.8);
  EXPECT_DOUBLE_EQ(far.high, 114.8);
  const Range beyond = range_for(4.1, 45.9, {0, 10, 20, 30, 40, 50});
  EXPECT_NEAR(beyond.low, 4.1 - 0.04 * 41.8, 1e-9) << "a tick that is further away than 0.4 steps is left out";
  EXPECT_NEAR(beyond.high, 45.9 + 0.04 * 41.8, 1e-9);
  const Range at_the_limit = range_for(4, 46, {0, 10, 20, 30, 40, 50});
  EXPECT_DOUBLE_EQ(at_the_limit.low, 0);
  EXPECT_DOUBLE_EQ(at_the_limit.high, 50);
}

TEST(Ticks, OfALogarithmicAxis) {
  EXPECT_EQ(log_ticks(1, 16), (Numbers{1, 2, 5, 10}));
  EXPECT_EQ(log_ticks(1, 200), (Numbers{1, 2, 5, 10, 20, 50, 100, 200}));
  EXPECT_EQ(log_ticks(1, 500), (Numbers{1, 10, 100})) << "more than eight: the decades alone";
  EXPECT_EQ(log_ticks(1, 1e6), (Numbers{1, 10, 100, 1e3, 1e4, 1e5, 1e6}));
}

RC_GTEST_PROP(Ticks, CoverTheRange, ()) {
  const double low = *rc::gen::inRange(-1000000, 1000000) * 1e-3;
  const double span = *rc::gen::inRange(1, 1000000) * std::pow(10, *rc::gen::inRange(-6, 6));
  const Numbers ticks = nice_ticks(low, low + span, 5);
  RC_ASSERT(ticks.size() >= 2 && ticks.size() <= 13);
  RC_ASSERT(ticks.front() <= low + 1e-6 * span);
  RC_ASSERT(ticks.back() >= low + span * (1 - 1e-6));
  RC_ASSERT(tick_labels(ticks).size() == ticks.size());
}

// From whole tenths, hundredths and so on, which a double misses by a little, no tick is too many.
TEST(Ticks, EndAtTheFirstThatIsFarEnough) {
  for (int power = -6; power <= 6; ++power) {
    for (int low = -20; low <= 20; ++low) {
      for (int high = low + 1; high <= low + 12; ++high) {
        const auto scaled = [&](int number) { return std::stod(std::to_string(number) + "e" + std::to_string(power)); };
        const Numbers ticks = nice_ticks(scaled(low), scaled(high), 5);
        const double little = 1e-6 * (ticks[1] - ticks[0]);
        ASSERT_LE(ticks.front(), scaled(low) + little);
        ASSERT_GE(ticks.back(), scaled(high) - little);
        ASSERT_GT(ticks[1], scaled(low) + little) << low << " to " << high << "e" << power;
        ASSERT_LT(ticks[ticks.size() - 2], scaled(high) - little) << low << " to " << high << "e" << power;
      }
    }
  }
}

TEST(Scale, MapsEndsToEnds) {
  const Scale linear(10, 20, 100, 0);
  EXPECT_DOUBLE_EQ(linear(10), 100);
  EXPECT_DOUBLE_EQ(linear(12.5), 75);
  const Scale logarithmic(1, 100, 0, 10, true);
  EXPECT_NEAR(logarithmic(10), 5, 1e-12);
  EXPECT_DOUBLE_EQ(Scale(3, 3, 0, 10)(3), 5);
}

}  // namespace
}  // namespace polyhead::report
