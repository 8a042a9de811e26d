// Does the number of heads matter? One width, one task, h of 1 to 16 heads, several seeds.
#pragma once

#include <string>
#include <vector>

#include "heads/survey.h"
#include "study/course.h"

namespace polyhead::study {

inline constexpr std::int64_t kHeadCounts[] = {1, 2, 4, 8, 16};
inline constexpr double kSolved = 0.95;

// One head count of one task, over all seeds.
struct Contender {
  std::string task;
  std::int64_t heads = 0;
  std::vector<Course> courses;                 // by seed
  std::vector<std::vector<double>> entropies;  // by seed, then by head: relative to equal weights
};

std::string heads_text(std::int64_t count);  // "1 head", "2 heads"

// Least, mean and most over seeds.
struct Spread {
  double low = 0, mean = 0, high = 0;
};
Spread spread(const std::vector<double>& values);

Spread final_accuracy(const Contender& contender);
// Steps until the accuracy stays above kSolved; a seed that never gets there counts as never.
struct StepsToSolve {
  Spread steps;
  std::size_t solved = 0;  // seeds that got there
};
StepsToSolve steps_to_solve(const Contender& contender);

struct ComparisonPlan {
  std::string task;
  std::int64_t layers = 1, width = 256, hidden = 512, steps = 100, batch = 32, every = 10;
  double rate = 1e-3;
  std::size_t seeds = 2;
};

// Jobs that fill `contenders`, which must stay where it is until they are done.
std::vector<Job> compare(const ComparisonPlan& plan, const Watch& watch, std::vector<Contender>& contenders);

}  // namespace polyhead::study
