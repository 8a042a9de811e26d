// Each task against a solver of its own that knows the rule and sees the tokens alone: it must reach the best score
// that the task promises. And the shortcuts that must not work.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>

#include "heads/occurrences.h"
#include "support/random.h"
#include "train/samples.h"

namespace polyhead::train {
namespace {

constexpr std::int64_t kSamples = 2000;

std::ptrdiff_t find(const Tokens& tokens, std::int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
}
std::int32_t at(const Tokens& tokens, std::ptrdiff_t i) { return tokens[static_cast<std::size_t>(i)]; }

// Answers by answer(tokens, i) for every position i.
template <class Answer>
auto solver(const Answer& answer) {
  return [answer](const Tokens& tokens) {
    Tokens answers;
    for (std::ptrdiff_t i = 0; i < std::ssize(tokens); ++i) answers.push_back(answer(tokens, i));
    return answers;
  };
}

// The token `offset` back from the one to come: the best that looking back a fixed distance can do.
double best_fixed_offset(const std::vector<Sequence>& sequences, std::ptrdiff_t context) {
  double best = 0;
  for (std::ptrdiff_t offset = 0; offset < context; ++offset) {
    best = std::max(best, score(sequences, solver([&](const Tokens& tokens, std::ptrdiff_t i) {
                                  return i < offset ? -1 : at(tokens, i - offset);
                                })));
  }
  return best;
}

TEST(Copy, IsSolvedByTheStringBeforeTheSeparator) {
  const auto task = task_called("copy");
  const auto sequences = samples(*task, Split::train, kSamples);
  const auto solve = solver([](const Tokens& tokens, std::ptrdiff_t i) {
    const std::ptrdiff_t separator = find(tokens, 1);
    return i < separator ? -1 : at(tokens, i - separator + 1);
  });
  EXPECT_EQ(score(sequences, solve), task->best_score());
  for (const Sequence& sequence : sequences) {
    ASSERT_EQ(find(sequence.tokens, 1), 17);
    ASSERT_EQ(counted_in(sequence), 16);
  }
}

// What followed the last time.
std::int32_t follower(const Tokens& tokens, std::ptrdiff_t i) {
  for (std::ptrdiff_t j = i - 1; j >= 0; --j) {
    if (at(tokens, j) == at(tokens, i)) return at(tokens, j + 1);
  }
  return -1;
}

TEST(Repeat, IsSolvedByWhatFollowedTheLastTime) {
  for (const char* name : {"repeat", "repeat-fixed"}) {
    const auto task = task_called(name);
    const auto sequences = samples(*task, Split::train, kSamples);
    EXPECT_EQ(score(sequences, solver(follower)), task->best_score());
    std::map<std::int64_t, int> lengths;
    for (const Sequence& sequence : sequences) {
      const heads::Occurrences found = heads::occurrences(sequence.tokens);
      const std::int64_t length = task->context() - 1 - counted_in(sequence);
      ++lengths[length];
      for (std::int64_t i = 0; i < task->context(); ++i) {
        // Positions count exactly where the token was there before, and then one segment earlier.
        ASSERT_EQ(at(sequence.targets, i) >= 0, i > length);
        ASSERT_EQ(at(found.duplicate, i), i > length ? i - length : -1);
        ASSERT_EQ(at(found.induction, i), i > length ? i - length + 1 : -1);
        if (i > length) {
          ASSERT_EQ(at(sequence.tokens, at(found.induction, i)), at(sequence.targets, i));
        }
      }
    }
    const bool fixed = std::string(name) == "repeat-fixed";
    EXPECT_EQ(lengths.begin()->first, fixed ? 32 : 8);
    EXPECT_EQ(lengths.rbegin()->first, 32);
    EXPECT_EQ(lengths.size(), fixed ? 1u : 25u);
    const double offset = best_fixed_offset(sequences, task->context());
    EXPECT_TRUE(fixed ? offset == 1 : offset < 0.2) << name << ": a fixed offset gets " << offset;
  }
}

TEST(Occurrences, AreThoseOfASearch) {
  test::Random random("occurrences");
  Tokens tokens;
  for (int n = 0; n < 300; ++n) tokens.push_back(static_cast<std::int32_t>(random.below(40)));
  const heads::Occurrences found = heads::occurrences(tokens);
  for (std::ptrdiff_t i = 0; i < std::ssize(tokens); ++i) {
    std::ptrdiff_t before = i - 1;
    while (before >= 0 && at(tokens, before) != at(tokens, i)) --before;
    EXPECT_EQ(at(found.duplicate, i), before);
    EXPECT_EQ(at(found.induction, i), before < 0 ? -1 : before + 1);
  }
  EXPECT_TRUE(heads::occurrences({}).duplicate.empty());
}

TEST(Recall, IsSolvedByTheFirstUseOfTheKey) {
  const auto task = task_called("recall");
  const auto sequences = samples(*task, Split::train, kSamples);
  const auto solve = solver([](const Tokens& tokens, std::ptrdiff_t i) {
    const std::ptrdiff_t first = find(tokens, at(tokens, i));
    return first < i ? at(tokens, first + 1) : -1;
  });
  EXPECT_EQ(score(sequences, solve), task->best_score());
  EXPECT_LT(best_fixed_offset(sequences, task->context()), 0.2);
  for (const Sequence& sequence : sequences) {
    ASSERT_EQ(counted_in(sequence), 8);
    ASSERT_EQ(sequence.links.size(), 7u);
    for (const Link& link : sequence.links) {
      EXPECT_EQ(at(sequence.tokens, link.query - 1), at(sequence.tokens, link.key - 1));
      EXPECT_EQ(at(sequence.tokens, link.query), at(sequence.tokens, link.key));
      EXPECT_EQ(at(sequence.tokens, link.key), at(sequence.targets, link.query - 1));
    }
  }
}

constexpr std::int32_t kLow = 4, kHigh = 5;

TEST(Classify, IsSolvedByTheValuesBesideTheMarkers) {
  const auto task = task_called("classify");
  ASSERT_EQ(task->token_text(kLow), "low");
  ASSERT_EQ(task->token_text(kHigh), "high");
  std::array<double, 8> classes{};
  for (const Sequence& sequence : samples(*task, Split::train, kSamples)) {
    const Tokens& tokens = sequence.tokens;
    for (const std::int32_t marker : {1, 2, 3}) ASSERT_EQ(std::count(tokens.begin(), tokens.end(), marker), 1);
    const std::int32_t values[] = {at(tokens, find(tokens, 1) + 1), at(tokens, find(tokens, 2) - 1),
                                   at(tokens, find(tokens, 3) + 2)};
    std::int32_t expected = 0;
    for (int bit = 0; bit < 3; ++bit) {
      ASSERT_TRUE(values[bit] == kLow || values[bit] == kHigh);
      expected += (values[bit] == kHigh) << bit;
    }
    ASSERT_EQ(sequence.targets[0], expected);
    ++classes[static_cast<std::size_t>(expected)];
  }
  const double mean = kSamples / 8.0, sigma = std::sqrt(mean * 7 / 8);
  for (const double count : classes) EXPECT_NEAR(count, mean, 5 * sigma);
}

// What a model can know that sees which words there are but not where: how many are low and how many high. For each
// such count the commonest class is the best answer.
TEST(Classify, IsNotSolvedWithoutTheOrder) {
  const auto task = task_called("classify");
  std::map<std::pair<std::ptrdiff_t, std::ptrdiff_t>, std::array<int, 8>> classes;
  constexpr std::int64_t kMany = 40000;
  for (const Sequence& sequence : samples(*task, Split::train, kMany)) {
    const Tokens& tokens = sequence.tokens;
    const auto counts = std::pair(std::count(tokens.begin(), tokens.end(), kLow),  //
                                  std::count(tokens.begin(), tokens.end(), kHigh));
    ++classes[counts][static_cast<std::size_t>(sequence.targets[0])];
  }
  int right = 0;
  for (const auto& [counts, of_class] : classes) right += *std::max_element(of_class.begin(), of_class.end());
  const double best = right / static_cast<double>(kMany);
  std::cout << "without the order " << best << " at best\n";
  EXPECT_LT(best, 0.4);
}

TEST(Dyck, IsSolvedByAStack) {
  const auto task = task_called("dyck");
  const auto sequences = samples(*task, Split::train, kSamples);
  std::size_t deepest = 0;
  const auto solve = [&](const Tokens& tokens) {
    Tokens answers = {-1}, open;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      const std::string text = task->token_text(tokens[i]);
      if (text[0] == '(') {
        open.push_back(tokens[i]);
      } else {
        EXPECT_EQ(task->token_text(open.back()).substr(1), text.substr(1));
        open.pop_back();
      }
      deepest = std::max(deepest, open.size());
      answers.push_back(open.empty() ? -1 : open.back() + 1);
    }
    return answers;
  };
  EXPECT_EQ(score(sequences, solve), task->best_score());
  EXPECT_EQ(deepest, 8u);
  EXPECT_LT(best_fixed_offset(sequences, task->context()), 0.2);
  for (const Sequence& sequence : sequences) {
    for (const Link& link : sequence.links) {
      ASSERT_EQ(at(sequence.tokens, link.key) + 1, at(sequence.tokens, link.query));
      ASSERT_EQ(at(sequence.targets, link.query - 1), at(sequence.tokens, link.query));
    }
  }
}

TEST(Text, KeepsTheLastTenthForValidation) {
  const auto task = make_task({.name = "text", .context = 16, .text = two_part_text(1000)});
  EXPECT_FALSE(task->best_score().has_value());
  EXPECT_EQ(task->token_text('\n'), "\\n");
  EXPECT_EQ(task->token_text(0xc3), "\\xc3");
  for (const Split split : {Split::train, Split::validation}) {
    const std::string text = two_part_text(1000), part = split == Split::train ? text.substr(0, 900) : text.substr(900);
    std::set<std::size_t> begins;
    for (const Sequence& sequence : samples(*task, split, 20000)) {
      std::string window(sequence.tokens.begin(), sequence.tokens.end());
      window.push_back(static_cast<char>(sequence.targets.back()));
      ASSERT_TRUE(std::equal(sequence.targets.begin(), sequence.targets.end(), window.begin() + 1));
      begins.insert(part.find(window));
    }
    // Every window that lies in the part, and no other.
    EXPECT_EQ(begins.size(), part.size() - 16);
    EXPECT_EQ(*begins.begin(), 0u);
    EXPECT_EQ(*begins.rbegin(), part.size() - 17);
  }
}

}  // namespace
}  // namespace polyhead::train
