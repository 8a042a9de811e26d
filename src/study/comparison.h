// Does the number of heads matter? One width, one task, h of 1 to 16 heads, several seeds; trained until it is solved
// or the budget is spent, so that what a model can do is told from how soon it does it.
#pragma once

#include <string>
#include <vector>

#include "heads/importance.h"
#include "study/course.h"

namespace polyhead::study {

inline constexpr std::int64_t kHeadCounts[] = {1, 2, 4, 8, 16};
inline constexpr double kSolved = 0.99;  // an accuracy that a course stays at

// One head count of one task, over all seeds.
struct Contender {
  std::string task;
  std::int64_t heads = 0;
  std::vector<Course> courses;  // by seed; what was observed is the entropy of every head, relative to equal weights

  std::size_t solved() const;                             // seeds that stay at kSolved
  std::vector<double> entropies(std::size_t seed) const;  // by head, at the end
  std::vector<double> mean_entropies() const;             // of every seed that solved it
  std::int64_t budget() const { return courses[0].plan.training.steps; }
};

std::string heads_text(std::int64_t count);  // "1 head", "2 heads"

// Least, mean and most over seeds.
struct Spread {
  double low = 0, mean = 0, high = 0;
};
Spread spread(const std::vector<double>& values);

Spread final_accuracy(const Contender& contender);
// Steps until the accuracy stays at kSolved, of the seeds that get there; nothing if none does.
std::optional<Spread> steps_to_solve(const Contender& contender);

struct ComparisonPlan {
  std::string task;
  std::int64_t layers = 1, width = 256, hidden = 512, steps = 100, batch = 32, every = 10;
  double rate = 1e-3;
  std::size_t seeds = 5;
  double expected = 1;  // share of the budget that the courses take, since most are solved before
};

// Jobs that fill `contenders`, which must stay where it is until they are done. Courses are kept in folders of
// `models`, of the first seed with its model.
std::vector<Job> compare(const ComparisonPlan& plan, const std::filesystem::path& models, const Watch& watch,
                         std::vector<Contender>& contenders);
double work_of(const ComparisonPlan& plan, const std::filesystem::path& models);

// "copy-4", "copy-4-seed-2"
std::string name_of_seed(const std::string& name, std::size_t seed);

}  // namespace polyhead::study
