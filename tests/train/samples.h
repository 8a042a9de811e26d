// What the tests of tasks share: every task, samples of its sequences, and the score of a solver.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "support/random.h"
#include "train/task.h"

namespace polyhead::train {

using Tokens = std::vector<std::int32_t>;

// A text whose first nine tenths are of a..m and whose last tenth is of n..z, so that a byte tells its part.
inline std::string two_part_text(std::size_t bytes) {
  std::string text;
  test::Random random("two parts");
  for (std::size_t i = 0; i < bytes; ++i) {
    const char first = i < bytes - bytes / 10 ? 'a' : 'n';
    text.push_back(static_cast<char>(first + random.below(13)));
  }
  return text;
}

inline std::unique_ptr<Task> task_called(const std::string& name, std::uint64_t seed = 1) {
  return make_task({.name = name, .seed = seed, .text = name == "text" ? two_part_text(20000) : ""});
}

inline std::vector<Sequence> samples(const Task& task, Split split, std::int64_t count) {
  std::vector<Sequence> all;
  for (std::int64_t n = 0; n < count; ++n)
    all.push_back(task.sequence(split, static_cast<std::uint64_t>(n / 64), n % 64));
  return all;
}

// The share of the targets that count which solve(tokens) gets right; it answers for every position.
template <class Solve>
double score(const std::vector<Sequence>& sequences, const Solve& solve) {
  std::int64_t right = 0, counted = 0;
  for (const Sequence& sequence : sequences) {
    const Tokens answers = solve(sequence.tokens);
    for (std::size_t i = 0; i < sequence.targets.size(); ++i) {
      if (sequence.targets[i] < 0) continue;
      ++counted;
      right += answers[i] == sequence.targets[i];
    }
  }
  return static_cast<double>(right) / static_cast<double>(counted);
}

inline std::int64_t counted_in(const Sequence& sequence) {
  std::int64_t counted = 0;
  for (const std::int32_t target : sequence.targets) counted += target >= 0;
  return counted;
}

}  // namespace polyhead::train
