// The fused kernel against the oracle: the whole catalogue, on every vector target that this machine runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "core/team.h"
#include "cpu/kernels.h"
#include "cpu/targets.h"
#include "kernels/executors.h"
#include "support/bits.h"
#include "support/compare.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

class CpuAttention : public ::testing::TestWithParam<Case> {};

TEST_P(CpuAttention, FollowsTheRuleOnEveryTarget) {
  const Materialised m = materialise(GetParam());
  const auto expected = judges(m.name) ? std::optional(expected_results(m)) : std::nullopt;
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : targets_for(m.name)) {
    SCOPED_TRACE(target);
    cpu::use_target(target);
    Attention got = attend(context, m.q, m.k, m.v, m.options, m.wants);
    EXPECT_TRUE(expected ? judge(*expected, views_of(got)) : ::testing::AssertionSuccess());
    // What is reported beside the output must not change it.
    const Attention alone = attend(context, m.q, m.k, m.v, m.options);
    EXPECT_TRUE(same_bits("output", got.output, alone.output));
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, CpuAttention, ::testing::ValuesIn(catalogue()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Spoilt, CpuAttention, ::testing::ValuesIn(spoilt_catalogue()),
                         [](const auto& instance) { return instance.param.name; });

// Large enough that every thread gets work.
std::vector<Case> threaded_cases() {
  Case base;
  base.batch = 1;
  base.heads = base.kv_heads = 3;
  base.queries = base.keys = 700;
  base.head_dim = base.value_dim = 64;
  base.wants.lse = true;
  base.wants.statistics = StatisticsSet::full;
  base.wants.row_statistics = true;
  Case causal = base, window = base, dropped = base, packed = base, gated = base;
  base.name = "plain";
  causal.name = "causal";
  causal.options.causal = true;
  window.name = "window";
  window.options.window = {.left = 100, .right = 30, .always_first = 4};
  dropped.name = "dropout";
  dropped.options.dropout = {.p = 0.2, .seed = 9};
  packed.name = "packed";
  packed.packed = true;
  packed.options.align = Align::top_left;
  gated.name = "gates";
  gated.gates = Gates::per_sequence;
  Case halves = causal, halves_in_window = window;
  halves.name = "bf16_causal";
  halves_in_window.name = "bf16_window";
  halves.dtype = halves_in_window.dtype = DType::bf16;
  return {base, causal, window, dropped, packed, gated, halves, halves_in_window};
}

class CpuThreads : public ::testing::TestWithParam<Case> {};

TEST_P(CpuThreads, ChangeNoBit) {
  const Materialised m = materialise(GetParam());
  Context one(1);
  const Attention expected = attend(one, m.q, m.k, m.v, m.options, m.wants);
  for (int threads = 2; threads <= 8; threads += kSanitized ? 3 : 1) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    Context context(threads);
    for (int repeat = 0; repeat < (kSanitized ? 1 : 3); ++repeat) {
      expect_same_bits(expected, attend(context, m.q, m.k, m.v, m.options, m.wants));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Large, CpuThreads, ::testing::ValuesIn(threaded_cases()),
                         [](const auto& instance) { return instance.param.name; });

// Corners that no list of options reaches: each is a case with one thing made unusual.
Case corner(std::int64_t queries, std::int64_t keys) {
  Case c;
  c.name = "corner";
  c.queries = queries;
  c.keys = keys;
  c.options.align = Align::bottom_right;
  c.wants.lse = c.wants.weights = true;
  c.wants.statistics = StatisticsSet::full;
  return c;
}

void expect_right(const Materialised& m) {
  const ExpectedResults expected = expected_results(m);
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : targets_for(m.name)) {
    cpu::use_target(target);
    Attention got = attend(context, m.q, m.k, m.v, m.options, m.wants);
    EXPECT_TRUE(judge(expected, views_of(got))) << target;
  }
}

// More rows than one group has on any target.
TEST(CpuCorners, SeveralGroupsOfQueries) {
  Case c = corner(600, 620);
  c.batch = 1;
  c.heads = c.kv_heads = 2;
  for (const bool causal : {false, true}) {
    c.options.causal = causal;
    expect_right(materialise(c));
  }
  c.options.window = {.left = 50, .right = 3, .always_first = 5};
  expect_right(materialise(c));
}

// Rows that can and cannot be read in pairs where they are, an odd number of keys, and panels that see a block from the
// second key of a pair on.
TEST(CpuCorners, HalvesThatLieApart) {
  Case c = corner(300, 333);
  c.batch = c.heads = c.kv_heads = 1;
  c.dtype = DType::bf16;
  c.options.window = {.left = 10, .right = 3, .always_first = 0};
  for (const std::int64_t dim : {33, 64}) {
    c.head_dim = c.value_dim = dim;
    Materialised m = materialise(c);
    expect_right(m);
    for (TensorView* view : {&m.k, &m.v}) {
      Tensor wide = Tensor::zeros({1, view->shape(1), view->shape(2), dim + 3}, DType::bf16);
      const TensorView apart = wide.view().slice(3, 1, dim + 1);
      Team team(1);
      cpu::copy(team, *view, apart);
      *view = apart;
      m.memory.push_back(std::move(wide));
    }
    expect_right(m);
  }
}

// Where the target multiplies pairs of bf16, calls stored in it take that path, and no others.
TEST(CpuTargets, SayWhereTheyMultiplyPairs) {
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : cpu::target_names()) {
    cpu::use_target(target);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Tensor x = Tensor::zeros({1, 2, 40, 16}, dtype);
      const std::string text = explain(context, x, x, x);
      EXPECT_EQ(text.find("in pairs") != std::string::npos, dtype == DType::bf16 && target == "AVX3_BF16") << text;
      EXPECT_NE(text.find(target + ","), std::string::npos) << text;
    }
  }
}

// Groups that lie wholly beyond the last key still see the first ones.
TEST(CpuCorners, RowsBeyondTheKeys) {
  Case c = corner(700, 40);
  c.batch = 1;
  c.options.align = Align::top_left;
  c.options.causal = true;
  c.options.window = {.left = 16, .right = 0, .always_first = 4};
  expect_right(materialise(c));
}

TEST(CpuCorners, WindowsNearTheLargestNumber) {
  for (const Window& window : {Window{8, kUnlimited - 1, 0}, Window{kUnlimited - 1, 3, 0},
                               Window{kUnlimited - 1, kUnlimited - 1, kUnlimited}}) {
    Case c = corner(60, 20);
    c.options.window = window;
    expect_right(materialise(c));
  }
}

TEST(CpuCorners, SinksOfAnySize) {
  for (const float sink : {-std::numeric_limits<float>::infinity(), -200.0f, 30.0f, 60.0f, 85.0f, 200.0f}) {
    Case c = corner(23, 31);
    c.sink_logit = true;
    c.options.causal = true;
    // Where the sink takes all but 1e-25, the last bit of the logits decides what is left of the statistics.
    if (sink > 50) c.wants.statistics = StatisticsSet::none;
    Materialised m = materialise(c);
    fill_with(m.sink_logit, [&] { return sink; });
    expect_right(m);
  }
}

TEST(CpuCorners, BiasBeyondTheNumbersOfF32) {
  for (const double bias : {-1.7e308, -1e300}) {
    Case c = corner(9, 14);
    c.bias = Dims{9, 14};
    c.bias_dtype = DType::f64;
    Materialised m = materialise(c);
    fill_with(m.bias, [&] { return bias; });
    Context context(1);
    const Attention got = attend(context, m.q, m.k, m.v, m.options);
    for (std::int64_t i = 0; i < got.output.view().count(); ++i) {
      ASSERT_TRUE(std::isfinite(got.output.as<float>()[i]));
      ASSERT_NE(got.output.as<float>()[i], 0) << "a finite bias hid every key";
    }
  }
}

// Rows that see a value with NaN in it make their panel walk over the keys once more: what does not depend on values
// stays as it is.
TEST(CpuCorners, SpoiltValuesChangeNothingElse) {
  Case c = corner(300, 300);
  c.options.causal = true;
  c.wants.row_statistics = true;
  const Materialised m = materialise(c);
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : targets_for(m.name)) {
    SCOPED_TRACE(target);
    cpu::use_target(target);
    Attention clean = attend(context, m.q, m.k, m.v, m.options, m.wants);
    Materialised bad = materialise(c);
    fill_with(bad.v.slice(2, 150, 151), [] { return std::nan(""); });
    Attention spoilt = attend(context, bad.q, bad.k, bad.v, bad.options, bad.wants);
    EXPECT_TRUE(std::isnan(spoilt.output.as<float>()[spoilt.output.view().count() - 1]));
    clean.output = Tensor();
    spoilt.output = Tensor();
    expect_same_bits(clean, spoilt);
  }
}

// With values of 1 the output is 1, but for the rounding of two sums over the keys. Summed key by key it grew with the
// root of their number, to 59 units at 16,384 of them.
TEST(CpuCorners, RoundingDoesNotGrowWithTheRow) {
  const auto units_off = [](Context& context, std::int64_t keys) {
    Case c = corner(64, keys);
    c.batch = 1;
    const Materialised m = materialise(c);
    fill_with(m.v, [] { return 1.0; });
    const Attention got = attend(context, m.q, m.k, m.v);
    const reference::Array<double> output(got.output.view());
    double largest = 0;
    for (const double x : output.values()) {
      largest = std::max(largest, std::abs(x - 1) / last_place(DType::f32, 1));
    }
    return largest;
  };
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : cpu::target_names()) {
    cpu::use_target(target);
    EXPECT_LE(units_off(context, 16384), 2 * units_off(context, 128) + 2) << target;
  }
}

// Rows that run backwards, and one key row seen as many.
TEST(CpuCorners, StridesOfAnySign) {
  const Materialised m = materialise(corner(37, 37));
  const auto flipped = [](const TensorView& view) {
    Dims strides = view.strides();
    strides[2] = -strides[2];
    return TensorView(view.slice(2, view.shape(2) - 1, view.shape(2)).data(), view.dtype(), view.shape(), strides);
  };
  Context context(1);
  const Attention straight = attend(context, m.q, m.k, m.v, {}, {});
  Tensor output = Tensor::zeros(straight.output.shape(), DType::f32);
  attend_into(context, flipped(m.q), flipped(m.k), flipped(m.v), {}, {}, {.output = flipped(output)});
  for (std::int64_t i = 0; i < output.view().count(); ++i) {
    ASSERT_NEAR(output.as<float>()[i], straight.output.as<float>()[i], 1e-5);
  }
  Materialised repeated = materialise(corner(37, 37));
  Dims strides = repeated.k.strides();
  strides[2] = 0;
  repeated.k = TensorView(repeated.k.data(), repeated.k.dtype(), repeated.k.shape(), strides);
  repeated.wants = {.lse = true, .weights = true};
  expect_right(repeated);
}

// The longest sequence, which the weights are as wide as, stands first; others leave columns of zeros.
TEST(CpuCorners, PackedWeightsOfALongSequenceFirst) {
  Case c = corner(40, 150);
  c.packed = true;
  Materialised m = materialise(c);
  const std::int32_t ends_q[] = {0, 20, 25, 33, 40}, ends_k[] = {0, 90, 92, 110, 150};
  m.options.cu_q = ConstTensorView(ends_q, {5});
  m.options.cu_k = ConstTensorView(ends_k, {5});
  expect_right(m);
}

// Halfway between two 16-bit numbers the even one is taken: means of two neighbours, one by one and in vectors.
TEST(CpuCorners, OutputsAreRoundedToEven) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double unit = dtype == DType::bf16 ? 0x1p-7 : 0x1p-10;
    Case c = corner(3, 2);
    c.dtype = dtype;
    c.value_dim = 37;
    Materialised m = materialise(c);
    fill_with(m.q, [] { return 0.0; });
    std::int64_t n = 0;
    fill_with(m.v, [&] {
      const std::int64_t key = n / 37 % 2, column = n % 37;
      ++n;
      return 1 + unit * static_cast<double>(column % 4 + key);
    });
    const RestoreTarget restore;
    Context context(1);
    for (const std::string& target : cpu::target_names()) {
      cpu::use_target(target);
      const Attention got = attend(context, m.q, m.k, m.v, {}, {});
      const reference::Array<double> output(got.output.view());
      for (std::size_t i = 0; i < output.values().size(); ++i) {
        ASSERT_EQ(output.values()[i], 1 + unit * static_cast<double>((i % 37 % 4 + 1) / 2 * 2)) << target << " " << i;
      }
    }
  }
}

TEST(CpuTargets, UnknownNameIsRefusedWithTheKnownOnes) {
  try {
    cpu::use_target("AVX9");
    FAIL() << "AVX9 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::value);
    const std::string what = error.what();
    EXPECT_NE(what.find("AVX9"), std::string::npos) << what;
    for (const std::string& target : cpu::target_names()) EXPECT_NE(what.find(target), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace polyhead::test
