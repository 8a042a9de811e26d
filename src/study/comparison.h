// Does the number of heads matter? One width, one task, 1 to 16 heads, several seeds; trained until the task is solved
// or the budget is spent, to tell what a model can do from how soon it does it.
#pragma once

#include <string>
#include <vector>

#include "heads/importance.h"
#include "study/course.h"

namespace polyhead::study {

inline constexpr std::int64_t kHeadCounts[] = {1, 2, 4, 8, 16};
inline constexpr double kSolved = 0.99;  // the accuracy that a course must stay at

// One head count of one task, over all seeds.
struct Contender {
  std::string task;
  std::int64_t heads = 0;
  std::vector<Course> courses;  // by seed; observed is every head's entropy, relative to equal weights

  std::size_t solved() const;                             // seeds that stay at kSolved
  std::vector<double> entropies(std::size_t seed) const;  // by head, at the end
  std::vector<double> mean_entropies() const;             // over heads, of every seed that solved it
  std::int64_t budget() const { return courses[0].plan.training.steps; }
};

std::string heads_text(std::int64_t count);  // "1 head", "2 heads"

// Lowest, mean and highest over seeds.
struct Spread {
  double low = 0, mean = 0, high = 0;
};
Spread spread(const std::vector<double>& values);

Spread final_accuracy(const Contender& contender);
// Steps until the accuracy stays at kSolved, over the seeds that get there; nothing if none does.
std::optional<Spread> steps_to_solve(const Contender& contender);

struct ComparisonPlan {
  std::string task;
  std::int64_t layers = 1, width = 256, hidden = 512, steps = 100, batch = 32, every = 10;
  double rate = 1e-3;
  std::size_t seeds = 5;
  double expected = 1;  // expected share of the budget, since most courses are solved early
};

// Jobs that fill `contenders`, which must stay where it is until they are done. Courses are kept in folders of
// `models`, the first seed's with its model.
std::vector<Job> compare(const ComparisonPlan& plan, const std::filesystem::path& models, const Watch& watch,
                         std::vector<Contender>& contenders);
double work_of(const ComparisonPlan& plan, const std::filesystem::path& models);

// "copy-4", "copy-4-seed-2"
std::string name_of_seed(const std::string& name, std::size_t seed);

}  // namespace polyhead::study
