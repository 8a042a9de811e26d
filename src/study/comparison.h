// Does the number of heads matter, and which of them can go? One width, one task, 1 to 16 heads, several seeds: each
// model is trained until the task is solved or the budget is spent, and then loses heads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heads/importance.h"
#include "study/anatomy.h"
#include "study/course.h"
#include "study/removal.h"

namespace polyhead::study {

inline constexpr std::int64_t kHeadCounts[] = {1, 2, 4, 8, 16};
inline constexpr std::int64_t kDissected = 8;  // so many heads have the models that are taken apart
inline constexpr double kSolved = 0.99;        // the accuracy that a course must stay at

// One head count of one task, over all seeds.
struct Contender {
  std::string task;
  std::int64_t heads = 0;
  std::vector<Course> courses;      // by seed; observed is every head's entropy, relative to equal weights
  std::vector<Removal> removals{};  // by seed

  std::size_t solved() const;                             // seeds that stay at kSolved
  std::vector<double> entropies(std::size_t seed) const;  // by head, at the end
  std::int64_t budget() const { return courses[0].plan.training.steps; }
  std::int64_t all_heads() const { return heads * std::ssize(courses[0].plan.model.layers); }
};

// What one task has shown.
struct TaskStudy {
  std::string task;
  std::vector<Contender> contenders;  // in the order of kHeadCounts
  std::vector<Anatomy> anatomies;     // of models with kDissected heads, by seed; of the first seeds

  const Contender& dissected() const;
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

// Where runs can be compared that ended at different times: the last step that all of them took, and the lowest loss
// that all of them have been at.
struct Common {
  double step = 0, loss = 0;
};
Common common_of(const std::vector<Contender>& contenders);
// The mean entropy of a run's heads at a step, and when its loss first fell to a value that it has been at; between two
// validations on the line that joins them.
double entropy_at_step(const Course& course, double step);
double entropy_at_loss(const Course& course, double loss);

struct ComparisonPlan {
  std::string task;
  std::int64_t layers = 1, width = 256, hidden = 512, steps = 100, batch = 32;
  std::int64_t every = 10, sequences = 256;  // of validations
  double rate = 1e-3;
  std::size_t seeds = 5, dissected = 1;  // of which so many have a model with kDissected heads taken apart
  RemovalPlan removal{};
  double expected = 1;  // expected share of the budget, if courses are solved early
};

// Jobs that fill `to`, which must stay where it is until they are done. Courses are kept in folders of `models`; the
// models of the first seed, and those that are taken apart, with them.
std::vector<Job> compare(const ComparisonPlan& plan, const std::filesystem::path& models, const Watch& watch,
                         TaskStudy& to);
// The courses alone, which are left in `models`.
std::vector<Job> train_for(const ComparisonPlan& plan, const std::filesystem::path& models, const Watch& watch);
double work_of(const ComparisonPlan& plan, const std::filesystem::path& models);
double work_of_dissections(const ComparisonPlan& plan);  // of it, what comes after the courses

// "copy-4", "copy-4-seed-2"
std::string name_of_seed(const std::string& name, std::size_t seed);

}  // namespace polyhead::study
