// The kernels' masks against the reference's own rule, over all small sequences, windows and offsets.
#include "kernels/mask.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "reference/rows.h"

namespace polyhead::kernels {
namespace {

constexpr int kQueries = 5, kKeys = 5;

// sees[i][j] by the reference.
struct Expected {
  bool sees[kQueries][kKeys] = {};
  int keys;

  Expected(const AttentionOptions& call, const Sequence& sequence) : keys(static_cast<int>(sequence.keys)) {
    for (int i = 0; i < kQueries; ++i) {
      for (int j = 0; j < keys; ++j) sees[i][j] = reference::in_reach(call, i + sequence.offset, j);
    }
  }
  bool some_see(int i, int last, int j) const {
    bool any = false;
    for (; i <= last; ++i) any = any || (j >= 0 && j < keys && sees[i][j]);
    return any;
  }
  bool all_see(int i, int last, int j) const {
    bool all = j >= 0 && j < keys;
    for (; all && i <= last; ++i) all = sees[i][j];
    return all;
  }
};

// What the first wrong answer is; empty if there is none.
template <class Int>
class Comparison {
 public:
  Comparison(const AttentionOptions& call, const Sequence& sequence)
      : expected_(call, sequence),
        options_(MaskOptions::of(call)),
        mask_(options_, sequence),
        keys_(static_cast<int>(sequence.keys)) {
    for (int i = 0; i < kQueries; ++i) {
      compare_set("keys_of", mask_.keys_of(int_of(i)), i, i, [&](int j) { return expected_.some_see(i, i, j); });
      if (mask_.begins_at_first()) compare_run(i);
      for (int last = i; last < kQueries; ++last) {
        const auto some = [&](int j) { return expected_.some_see(i, last, j); };
        compare_set("keys_of_some", mask_.keys_of_some(int_of(i), int_of(last)), i, last, some);
        compare_set("keys_of_all", mask_.keys_of_all(int_of(i), int_of(last)), i, last,
                    [&](int j) { return expected_.all_see(i, last, j); });
        int count = 0;
        for (int j = 0; j < keys_; ++j) count += some(j) ? 1 : 0;
        if (count > mask_.most_keys(last - i + 1)) say("most_keys", i, last, count);
      }
    }
    for (int j = 0; j < keys_; ++j) compare_queries(j);
  }

  std::string wrong() const { return wrong_.str(); }

 private:
  static Int int_of(int number) { return static_cast<Int>(number); }
  void say(const char* what, int from, int to, int at) {
    if (wrong_.str().empty()) wrong_ << what << " " << from << ".." << to << " at " << at;
  }

  // The set against in(j), for every key and every range of keys, and some beyond the sequence's ends.
  template <class In>
  void compare_set(const char* what, const KeySet<Int>& set, int i, int last, const In& in) {
    int count = 0, lowest = -1, highest = -1;
    for (int j = -2; j < keys_ + 2; ++j) {
      if (set.has(int_of(j)) != in(j)) say(what, i, last, j);
      if (!in(j)) continue;
      if (count++ == 0) lowest = j;
      highest = j;
    }
    if (set.count() != count) say("count", i, last, count);
    if (count > 0 && (set.lowest() != lowest || set.bound() <= highest)) say("lowest or bound", i, last, lowest);
    for (int begin = -2; begin < keys_ + 2; ++begin) {
      for (int end = begin + 1; end <= keys_ + 2; ++end) compare_range(set, begin, end, in);
    }
  }
  template <class In>
  void compare_range(const KeySet<Int>& set, int begin, int end, const In& in) {
    const Range<Int> range{int_of(begin), int_of(end)};
    int count = 0, lowest = 0, highest = 0;
    for (int j = begin; j < end; ++j) {
      if (!in(j)) continue;
      if (count++ == 0) lowest = j;
      highest = j;
    }
    if (set.has_any(range) != (count > 0)) say("has_any", begin, end, count);
    if (set.has_all(range) != (count == end - begin)) say("has_all", begin, end, count);
    if (begin < 0 || end > keys_) return;
    const Range<Int> hull = set.hull(range);
    if (hull.empty() != (count == 0)) say("an empty hull", begin, end, count);
    if (count > 0 && (hull.begin != lowest || hull.end != highest + 1)) say("hull", begin, end, count);
    const auto [first, rest] = set.parts(range);
    for (int j = begin; j < end; ++j) {
      const int times = (j >= first.begin && j < first.end ? 1 : 0) + (j >= rest.begin && j < rest.end ? 1 : 0);
      if (times != (in(j) ? 1 : 0)) say("parts", begin, end, j);
    }
    for (const Range<Int>& part : {first, rest}) {
      if (!part.empty() && (part.begin < begin || part.end > end)) say("parts beyond the range", begin, end, count);
    }
    if (count > 0 && count < highest - lowest + 1 && !options_.has_holes()) say("has_holes", begin, end, count);
  }

  // Keys [0, end) and no others.
  void compare_run(int i) {
    const KeySet<Int> seen = mask_.keys_of(int_of(i));
    for (int j = 0; j < keys_; ++j) {
      if (expected_.sees[i][j] != (j < seen.end)) say("begins_at_first", i, i, j);
    }
    if (seen.end != std::clamp<Int>(int_of(i) + mask_.end_shift, 0, mask_.keys)) say("end_shift", i, i, keys_);
  }

  void compare_queries(int j) {
    for (int last = j; last < keys_; ++last) {
      const Range<Int> alone = mask_.queries_of(int_of(j)), some = mask_.queries_of_some(int_of(j), int_of(last));
      for (int i = 0; i < kQueries; ++i) {
        if ((i >= alone.begin && i < alone.end) != expected_.sees[i][j]) say("queries_of", j, j, i);
        bool any = false;
        for (int k = j; k <= last; ++k) any = any || expected_.sees[i][k];
        if (any && (i < some.begin || i >= some.end)) say("queries_of_some", j, last, i);
      }
    }
  }

  const Expected expected_;
  const MaskOptions options_;
  const PositionMask<Int> mask_;
  const int keys_;
  std::ostringstream wrong_;
};

void compare(bool causal, const Window& window, std::int64_t keys, std::int64_t offset) {
  AttentionOptions call;
  call.causal = causal;
  call.window = window;
  const Sequence sequence{.queries = kQueries, .keys = keys, .offset = offset};
  for (const std::string& wrong :
       {Comparison<int>(call, sequence).wrong(), Comparison<std::int64_t>(call, sequence).wrong()}) {
    ASSERT_EQ(wrong, "") << (causal ? "causal, " : "") << "window " << window.left << ", " << window.right << ", "
                         << window.always_first << "; " << keys << " keys, offset " << offset;
  }
}

TEST(PositionMask, IsTheReferencesOverAllSmallSizes) {
  const std::vector<std::int64_t> reaches{0, 1, 2, 4, kUnlimited};
  for (const bool causal : {false, true}) {
    for (const std::int64_t left : reaches) {
      for (const std::int64_t right : reaches) {
        for (const std::int64_t first : reaches) {
          for (std::int64_t keys = 0; keys <= kKeys; ++keys) {
            for (std::int64_t offset = -kQueries - 2; offset <= kKeys + 8; ++offset) {
              compare(causal, {left, right, first}, keys, offset);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(PositionMask, TakesNumbersOfAnySize) {
  const std::vector<std::int64_t> far{
      3, (1 << 30) - 1, kMostPosition, kMostPosition + 2, kUnlimited / 4, kUnlimited - 1};
  for (const bool causal : {false, true}) {
    for (const std::int64_t left : far) {
      for (const std::int64_t right : far) {
        for (const std::int64_t offset : {-kMostPosition, std::int64_t{-(1 << 30)}, std::int64_t{0},
                                          std::int64_t{(1 << 30) - 3}, kMostPosition - 1, kMostPosition}) {
          compare(causal, {left, right, 2}, kKeys, offset);
          compare(causal, {left, right, kUnlimited - 1}, kKeys, offset);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// As many queries and keys as an int counts.
TEST(PositionMask, CountsToTheEndInThirtyTwoBits) {
  constexpr int kFar = PositionMask<int>::kFar;
  for (const std::int64_t offset : {std::int64_t{-kFar}, std::int64_t{0}, kMostPosition}) {
    for (const std::int64_t reach : {std::int64_t{0}, std::int64_t{kFar}, kUnlimited}) {
      for (const bool causal : {false, true}) {
        const MaskOptions options{causal, {reach, reach, 1}};
        const Sequence sequence{.queries = kFar, .keys = kFar, .offset = offset};
        const PositionMask<int> narrow(options, sequence);
        const PositionMask<std::int64_t> wide(options, sequence);
        for (const int i : {0, 1, kFar / 2, kFar - 1}) {
          const KeySet<int> found = narrow.keys_of(i);
          const KeySet<std::int64_t> expected = wide.keys_of(i);
          EXPECT_EQ(found.first_end, expected.first_end);
          EXPECT_EQ(found.begin, expected.begin);
          EXPECT_EQ(found.end, expected.end);
          const Range<int> by = narrow.queries_of(i);
          const Range<std::int64_t> by_wide = wide.queries_of(i);
          EXPECT_EQ(std::max(by.begin, 0), std::clamp<std::int64_t>(by_wide.begin, 0, std::int64_t{i} + kFar + 1));
          EXPECT_EQ(std::clamp(by.end, 0, kFar), std::clamp<std::int64_t>(by_wide.end, 0, kFar));
        }
      }
    }
  }
}

}  // namespace
}  // namespace polyhead::kernels
