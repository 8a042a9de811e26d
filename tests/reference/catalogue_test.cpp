// The catalogue and the rule, before anything is judged by them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/bits.h"
#include "support/compare.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

TEST(Catalogue, NamesAreUnique) {
  for (const std::vector<Case>& cases : {catalogue(), gradient_catalogue(), spoilt_catalogue()}) {
    std::set<std::string> names;
    for (const Case& c : cases) EXPECT_TRUE(names.insert(c.name).second) << c.name;
  }
}

// A yardstick that is off by much would let everything pass: it may lose some bits to rounding, not more.
void expect_short(const Tensor& exact, const Tensor& plain) {
  const std::vector<double> e = reference::Array<double>(exact).values(), p = reference::Array<double>(plain).values();
  double largest = 0;
  for (const double x : e) largest = std::max(largest, std::abs(x));
  EXPECT_LE(distance_of(p, e).largest, 32 * last_place(plain.dtype(), largest));
}

// The oracle takes its time, and under sanitizers others run it over these cases, too: there every sixth will do.
std::vector<Case> some_of(std::vector<Case> cases) {
  std::size_t n = 0;
  if (kSanitized) std::erase_if(cases, [&](const Case&) { return n++ % 6 != 0; });
  return cases;
}

class Yardstick : public ::testing::TestWithParam<Case> {};

TEST_P(Yardstick, IsFitToJudge) {
  Case recipe = GetParam();
  recipe.wants.weight_heads = recipe.wants.weight_rows = {};  // all, to look for ties
  ExpectedResults expected = expected_results(materialise(recipe));
  EXPECT_TRUE(judge(expected, views_of(expected.plain)));
  if (recipe.logits == Logits::ordinary) expect_short(expected.exact.output, expected.plain.output);
  EXPECT_FALSE(recipe.wants.statistics != StatisticsSet::none && has_near_tie(expected.exact));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Yardstick, ::testing::ValuesIn(some_of(catalogue())),
                         [](const auto& instance) { return instance.param.name; });

class GradientYardstick : public ::testing::TestWithParam<Case> {};

TEST_P(GradientYardstick, IsFitToJudge) {
  ExpectedGradients expected = expected_gradients(materialise(GetParam()));
  EXPECT_TRUE(judge(expected, views_of(expected.plain)));
  if (GetParam().logits != Logits::ordinary) return;
  expect_short(expected.exact.dq, expected.plain.dq);
  expect_short(expected.exact.dk, expected.plain.dk);
  expect_short(expected.exact.dv, expected.plain.dv);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, GradientYardstick, ::testing::ValuesIn(some_of(gradient_catalogue())),
                         [](const auto& instance) { return instance.param.name; });

TEST(Rule, LastPlaces) {
  EXPECT_EQ(last_place(DType::f32, 1), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(last_place(DType::f64, -3), 2 * std::numeric_limits<double>::epsilon());
  EXPECT_EQ(last_place(DType::f16, 1), 0x1p-10);
  EXPECT_EQ(last_place(DType::f16, 0), 0x1p-24);
  EXPECT_EQ(last_place(DType::bf16, 255), 1);
}

// What [1, -inf, 2] in f32 passes for, where the plain implementation is off by 2^-20.
::testing::AssertionResult judged(double a, double b, double c) {
  const auto tensor = [](double x, double y, double z, DType dtype) {
    Tensor t = Tensor::empty({3}, dtype);
    const std::vector<double> values{x, y, z};
    std::size_t n = 0;
    fill_with(t.view(), [&] { return values[n++]; });
    return t;
  };
  const double none = -std::numeric_limits<double>::infinity();
  return near_enough("x", tensor(a, b, c, DType::f32), tensor(1, none, 2, DType::f64),
                     tensor(1 + 0x1p-20, none, 2, DType::f32));
}

TEST(Rule, ForgivesTwiceThePlainErrorAndTwoLastPlaces) {
  const double none = -std::numeric_limits<double>::infinity(), allowed = 2 * 0x1p-20 + 2 * 0x1p-22;
  EXPECT_TRUE(judged(1, none, 2));
  EXPECT_TRUE(judged(1, none, 2 - allowed));
  EXPECT_TRUE(judged(1 + allowed, none, 2));
  EXPECT_FALSE(judged(1, none, 2 - allowed - 0x1p-22));
  EXPECT_FALSE(judged(1 + allowed + 0x1p-23, none, 2));
}

TEST(Rule, HoldsInfinitiesToTheirPlaces) {
  const double none = -std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(judged(1, -1e30, 2));
  EXPECT_FALSE(judged(1, -none, 2));
  EXPECT_FALSE(judged(1, nan, 2));
  EXPECT_FALSE(judged(nan, none, 2));
  EXPECT_FALSE(judged(1, none, none));
  EXPECT_NE(std::string(judged(1, 7, 2).message()).find("at [1]: got 7, expected -inf"), std::string::npos);
}

// What weights forgive each other, other fields do not forgive them.
TEST(Rule, KeepsStatisticsApart) {
  const auto judged_with = [](Statistic field, float by) {
    Tensor exact = Tensor::zeros({1, kFullStatistics}, DType::f64),
           got = Tensor::zeros({1, kFullStatistics}, DType::f32);
    exact.as<double>()[static_cast<int>(Statistic::max_offset)] = 1e6;
    got.as<float>()[static_cast<int>(Statistic::max_offset)] = 1e6f;
    got.as<float>()[static_cast<int>(field)] += by;
    Tensor plain = Tensor::zeros({1, kFullStatistics}, DType::f32);
    plain.as<float>()[static_cast<int>(Statistic::max_offset)] = 1e6f + 1;
    plain.as<float>()[static_cast<int>(Statistic::sink_weight)] = 0x1p-10f;
    return statistics_near_enough("x", got, exact, plain);
  };
  EXPECT_TRUE(judged_with(Statistic::max_offset, 2));
  EXPECT_TRUE(judged_with(Statistic::self_weight, 0x1p-9f));
  EXPECT_FALSE(judged_with(Statistic::self_weight, 0x1p-8f));
  EXPECT_FALSE(judged_with(Statistic::entropy, 0x1p-9f));
}

}  // namespace
}  // namespace polyhead::test
