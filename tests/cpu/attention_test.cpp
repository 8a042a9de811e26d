// The fused kernel against the oracle: the whole catalogue, on every vector target that this machine runs.
#include "backend/attention.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cpu/targets.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

// Puts the machine's own choice back when a test has forced targets.
struct RestoreTarget {
  std::string name = cpu::target_name();
  ~RestoreTarget() { cpu::use_target(name); }
};

::testing::AssertionResult same_bits(const std::string& what, const Tensor& a, const Tensor& b) {
  if (a.present() != b.present()) return ::testing::AssertionFailure() << what << " is there only once";
  if (!a.present()) return ::testing::AssertionSuccess();
  const std::size_t bytes = static_cast<std::size_t>(a.view().count()) * size_of(a.dtype());
  if (a.shape() == b.shape() && std::memcmp(a.view().data(), b.view().data(), bytes) == 0) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << what << " " << describe(a) << " and " << describe(b)
                                       << " differ in their bits";
}

void expect_same_bits(const Attention& a, const Attention& b) {
  EXPECT_TRUE(same_bits("output", a.output, b.output));
  EXPECT_TRUE(same_bits("lse", a.lse, b.lse));
  EXPECT_TRUE(same_bits("weights", a.weights, b.weights));
  EXPECT_TRUE(same_bits("statistics", a.statistics, b.statistics));
  EXPECT_TRUE(same_bits("row_statistics", a.row_statistics, b.row_statistics));
}

class CpuAttention : public ::testing::TestWithParam<Case> {};

TEST_P(CpuAttention, FollowsTheRuleOnEveryTarget) {
  const Materialised m = materialise(GetParam());
  const ExpectedResults expected = expected_results(m);
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : cpu::target_names()) {
    SCOPED_TRACE(target);
    cpu::use_target(target);
    Attention got = attend(context, m.q, m.k, m.v, m.options, m.wants);
    EXPECT_TRUE(judge(expected, views_of(got)));
    // What is reported beside the output must not change it.
    const Attention alone = attend(context, m.q, m.k, m.v, m.options);
    EXPECT_TRUE(same_bits("output", got.output, alone.output));
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, CpuAttention, ::testing::ValuesIn(catalogue()),
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
  return {base, causal, window, dropped, packed, gated};
}

class CpuThreads : public ::testing::TestWithParam<Case> {};

TEST_P(CpuThreads, ChangeNoBit) {
  const Materialised m = materialise(GetParam());
  Context one(1);
  const Attention expected = attend(one, m.q, m.k, m.v, m.options, m.wants);
  for (int threads = 2; threads <= 8; ++threads) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    Context context(threads);
    for (int repeat = 0; repeat < 3; ++repeat) {
      expect_same_bits(expected, attend(context, m.q, m.k, m.v, m.options, m.wants));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Large, CpuThreads, ::testing::ValuesIn(threaded_cases()),
                         [](const auto& instance) { return instance.param.name; });

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
