// One model taken apart: what its heads do, which matter, which can go, and what that saves.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "study/course.h"
#include "study/cut.h"
#include "study/examination.h"

namespace polyhead::study {

struct RelationFound {
  double accuracy = 0, offset = 0;  // of the best head, of the best fixed offset
  heads::HeadId head;
};

struct Anatomy {
  Course course;
  Examination examination;
  heads::PruneCurve iterative, one_shot;
  std::vector<heads::PruneCurve> random;  // by seed
  std::map<std::string, RelationFound> relations;
  std::unique_ptr<model::Transformer> pruned;
  BeforeAndAfter saving;  // judged on sequences that neither ranked nor stopped the pruning
};

struct AnatomyPlan {
  std::string task = "grammar";
  std::int64_t layers = 2, width = 64, heads = 8, steps = 800, batch = 32, every = 50;
  double rate = 2e-3;
  std::size_t random_orders = 5;
};

// `watch` is called after every training step, `check` as heads are taken out; both may throw Interrupted.
Job dissect(const AnatomyPlan& plan, const Watch& watch, const Watch& check, Anatomy& to);
// Timed, so when nothing else runs.
void measure_saving(Context& context, Anatomy& anatomy);

}  // namespace polyhead::study
