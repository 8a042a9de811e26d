// Equal to the last bit; and the vector targets that a test forces.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/hash.h"
#include "cpu/targets.h"
#include "kernels/executors.h"
#include "polyhead/attention.h"

namespace polyhead::test {

// Puts the machine's own choice back when a test has forced targets.
struct RestoreTarget {
  std::string name = cpu::target_name();
  ~RestoreTarget() { cpu::use_target(name); }
};

// Sanitizers look for other mistakes than wrong numbers, and take ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The targets to try something on in this test: all that the machine runs; under sanitizers one, by its name.
inline std::vector<std::string> targets_for(const std::string& what) {
  const std::vector<std::string> all = cpu::target_names();
  if (!kSanitized) return all;
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return {all[fnv1a(test + what) % all.size()]};
}

// Whether numbers are judged: those of all cases; under sanitizers those of some names, for the oracle takes most of
// the time, and the same numbers have been judged on every target without them.
inline bool judges(const std::string& what) { return !kSanitized || fnv1a(what) % 8 == 0; }

inline ::testing::AssertionResult same_bits(const std::string& what, const Tensor& a, const Tensor& b) {
  if (a.present() != b.present()) return ::testing::AssertionFailure() << what << " is there only once";
  if (!a.present()) return ::testing::AssertionSuccess();
  const std::size_t bytes = static_cast<std::size_t>(a.view().count()) * size_of(a.dtype());
  if (a.shape() == b.shape() && std::memcmp(a.view().data(), b.view().data(), bytes) == 0) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << what << " " << describe(a) << " and " << describe(b)
                                       << " differ in their bits";
}

inline void expect_same_bits(const Attention& a, const Attention& b) {
  EXPECT_TRUE(same_bits("output", a.output, b.output));
  EXPECT_TRUE(same_bits("lse", a.lse, b.lse));
  EXPECT_TRUE(same_bits("weights", a.weights, b.weights));
  EXPECT_TRUE(same_bits("logits", a.logits, b.logits));
  EXPECT_TRUE(same_bits("statistics", a.statistics, b.statistics));
  EXPECT_TRUE(same_bits("row_statistics", a.row_statistics, b.row_statistics));
}

inline void expect_same_bits(const AttentionGradients& a, const AttentionGradients& b) {
  EXPECT_TRUE(same_bits("dq", a.dq, b.dq));
  EXPECT_TRUE(same_bits("dk", a.dk, b.dk));
  EXPECT_TRUE(same_bits("dv", a.dv, b.dv));
  EXPECT_TRUE(same_bits("dbias", a.dbias, b.dbias));
  EXPECT_TRUE(same_bits("dsink_logit", a.dsink_logit, b.dsink_logit));
  EXPECT_TRUE(same_bits("dgates", a.dgates, b.dgates));
}

}  // namespace polyhead::test
