// One model taken apart: what its heads do, and how much depends on each.
#pragma once

#include <map>
#include <string>

#include "exam/examination.h"
#include "study/course.h"

namespace polyhead::study {

struct RelationFound {
  double accuracy = 0, offset = 0;  // of the best head; of the best fixed offset
  HeadId head;
};

struct Anatomy {
  exam::Examination examination;
  std::map<std::string, RelationFound> relations;      // that the task knows
  std::int64_t parameters = 0, pruned_parameters = 0;  // of the whole model, and without the heads that may go

  std::size_t most_damaging() const;  // index of the head without which the loss is highest
};

// The model without those heads is left in the folder `pruned`.
Anatomy dissect(Context& context, const Course& course, const std::vector<HeadId>& gone,
                const std::filesystem::path& pruned);

}  // namespace polyhead::study
