// Intervals by resampling, and what is left of many findings once chance has had its share.
#include "heads/intervals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/draws.h"

namespace polyhead::heads {
namespace {

double mean_of(const std::vector<std::int32_t>& counts, const std::vector<double>& values) {
  double sum = 0, all = 0;
  for (std::size_t n = 0; n < counts.size(); ++n) sum += counts[n] * values[n], all += counts[n];
  return sum / all;
}

// Of n values the mean's error is their spread over the root of n.
TEST(Resamples, SpreadAsFarAsOtherSamplesWould) {
  Draws draws(3, 0, 0, 0);
  std::vector<double> values;
  for (int n = 0; n < 400; ++n) values.push_back(draws.below(1000));  // spread 288.7
  const Resamples resamples(std::vector<int>(400, 0));
  std::vector<double> means = resamples.each([&](const auto& counts) { return mean_of(counts, values); });
  const double centre = std::accumulate(values.begin(), values.end(), 0.0) / 400, error = 288.7 / 20;
  const Interval interval = interval_of(means);
  EXPECT_NEAR(interval.low, centre - 1.96 * error, 0.35 * error);
  EXPECT_NEAR(interval.high, centre + 1.96 * error, 0.35 * error);
}

TEST(Resamples, HaveAsManySequencesAsThereAre) {
  const Resamples resamples(std::vector<int>(7, 2));
  const std::vector<double> sizes =
      resamples.each([](const auto& counts) { return std::accumulate(counts.begin(), counts.end(), 0.0); });
  EXPECT_GE(sizes.size(), 500u);
  for (const double size : sizes) EXPECT_EQ(size, 7);
}

// Sequences of a group are alike: forty of them in two groups say no more than two would.
TEST(Resamples, OfGroupsKnowThatTheirSequencesAreAlike) {
  std::vector<int> groups(40);
  std::vector<double> values(40);
  for (std::size_t n = 0; n < 40; ++n) values[n] = groups[n] = n < 20 ? 0 : 1;
  std::vector<double> grouped = Resamples(groups).each([&](const auto& counts) { return mean_of(counts, values); });
  std::vector<double> alone =
      Resamples(std::vector<int>(40, 0)).each([&](const auto& counts) { return mean_of(counts, values); });
  EXPECT_EQ(interval_of(grouped).low, 0);
  EXPECT_EQ(interval_of(grouped).high, 1);
  EXPECT_GT(interval_of(alone).low, 0.25);
  EXPECT_LT(interval_of(alone).high, 0.75);
}

TEST(Resamples, OfOneSequenceAreNone) {
  EXPECT_TRUE(Resamples({0}).each([](const auto&) { return 1.0; }).empty());
}

// Quantiles from tables.
TEST(Chances, AreThoseOfTheDistributions) {
  EXPECT_NEAR(normal_p(1.6449, 1), 0.05, 1e-5);
  EXPECT_NEAR(normal_p(-1.6449, 1), 0.95, 1e-5);
  EXPECT_EQ(normal_p(1, 0), 0);
  EXPECT_EQ(normal_p(0, 0), 1);
  EXPECT_NEAR(student_p(12.706, 1, 1), 0.05, 1e-5);
  EXPECT_NEAR(student_p(-3.182, 1, 3), 0.05, 1e-4);
  EXPECT_NEAR(student_p(4.032, 2, 5), 0.1004, 2e-3);
  EXPECT_NEAR(student_p(2.131, 1, 15), 0.05, 1e-4);
  EXPECT_NEAR(student_p(1.962, 1, 1000), 0.05, 1e-4);
  EXPECT_NEAR(student_p(0, 1, 9), 1, 1e-12);
  EXPECT_EQ(student_p(0, 0, 9), 1);
  EXPECT_EQ(student_p(1, 0, 9), 0);
}

// The example of Benjamini and Hochberg 1995: 15 tests, of which the first four stand.
TEST(Findings, AreThoseOfBenjaminiAndHochberg) {
  const std::vector<double> p{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                              0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
  std::vector<bool> found = findings(p);
  EXPECT_EQ(std::count(found.begin(), found.end(), true), 4);
  EXPECT_TRUE(found[3]);
  std::vector<double> turned(p.rbegin(), p.rend());
  found = findings(turned);
  EXPECT_TRUE(found[14] && found[11]);
  EXPECT_FALSE(found[10]);
  EXPECT_TRUE(findings({}).empty());
}

// Of a thousand heads that do nothing, hardly any is found: one by one, fifty would be.
TEST(Findings, AreNoneWhereThereIsNothing) {
  Draws draws(5, 0, 0, 0);
  std::vector<double> p;
  for (int n = 0; n < 1000; ++n) p.push_back((draws.below(1'000'000) + 0.5) / 1e6);
  const std::vector<bool> found = findings(p);
  EXPECT_LT(std::count(found.begin(), found.end(), true), 3);
  EXPECT_GT(std::count_if(p.begin(), p.end(), [](double one) { return one < 0.05; }), 30);
}

}  // namespace
}  // namespace polyhead::heads
