// One model dissected: what its heads do, which matter, which can go, and what that saves.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exam/cut.h"
#include "exam/examination.h"
#include "study/course.h"

namespace polyhead::study {

struct RelationFound {
  double accuracy = 0, offset = 0;  // of the best head; of the best fixed offset
  HeadId head;
};

struct Anatomy {
  Course course;
  exam::Examination examination;
  PruneCurve iterative, one_shot;
  std::vector<PruneCurve> random;  // one per order
  std::map<std::string, RelationFound> relations;
  std::unique_ptr<model::Transformer> pruned;
  exam::BeforeAndAfter saving;  // on sequences used neither to rank heads nor to stop pruning

  std::size_t most_damaging() const;  // index of the head without which the loss is highest
  // The number of removed heads from which on a single ranking is worse than the mean of the random orders, up to the
  // last head but one; nothing if there is none.
  std::optional<std::size_t> one_shot_below_random() const;
};

struct AnatomyPlan {
  std::string task = "grammar";
  std::int64_t layers = 2, width = 64, heads = 8, steps = 800, batch = 32, every = 50;
  double rate = 2e-3;
  std::size_t random_orders = 5, seeds = 3;
};

// One job per seed; whole and pruned models are kept in folders of `models`.
std::vector<Job> dissect(const AnatomyPlan& plan, const std::filesystem::path& models, const Watch& watch,
                         std::vector<Anatomy>& to);
// Their courses alone, which are left in `models`.
std::vector<Job> train_for(const AnatomyPlan& plan, const std::filesystem::path& models, const Watch& watch);
double work_of(const AnatomyPlan& plan, const std::filesystem::path& models);
double work_of_removals(const AnatomyPlan& plan);  // of it, what comes after the courses
// Measures time: call it when nothing else runs.
void measure_saving(Context& context, Anatomy& anatomy);

}  // namespace polyhead::study
