// One model taken apart: what its heads do, which matter, which can go, and what that saves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heads/pruning.h"
#include "heads/roles.h"
#include "study/course.h"

namespace polyhead::study {

struct RelationFound {
  double accuracy = 0, offset = 0;  // of the best head, of the best fixed offset
  heads::HeadId head;
};

struct Saving {
  std::int64_t heads = 0, parameters = 0;
  double accuracy = 0;
  double milliseconds_1 = 0, milliseconds_16 = 0;  // a forward pass of 1 and of 16 sequences, median
};

struct Anatomy {
  Course course;
  heads::Survey survey;
  std::vector<heads::HeadRoles> roles;
  std::vector<heads::HeadRoles> untrained;  // the same detectors on a model that has learnt nothing
  std::vector<heads::Importance> importance;
  std::vector<std::vector<double>> agreement;
  double rank_correlation = 0;  // of gradient and damage
  heads::PruneCurve iterative, one_shot;
  std::vector<heads::PruneCurve> random;  // by seed
  std::map<std::string, RelationFound> relations;
  std::unique_ptr<model::Transformer> pruned;
  Saving before, after;
};

struct AnatomyPlan {
  std::string task = "grammar";
  std::int64_t layers = 2, width = 64, heads = 8, steps = 800, batch = 32, every = 50;
  double rate = 2e-3;
  std::size_t random_orders = 5;
  std::int64_t batches = 3;  // of 64 sequences, to rank by; as many others to judge by
};

// Training is one job; taking apart, which is timed, comes when nothing else runs.
Job dissect(const AnatomyPlan& plan, const Watch& watch, Anatomy& to);
void measure_saving(Context& context, Anatomy& anatomy);

}  // namespace polyhead::study
