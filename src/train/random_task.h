// What the tasks that invent their sequences have in common.
#pragma once

#include <string>

#include "core/draws.h"
#include "train/task.h"

namespace polyhead::train {

// A sequence belongs to one split for good: a hash of its tokens gives one in eight to validation, whatever the seed.
// Training and validation are so disjoint in tasks with few sequences as well as in those with many.
class RandomTask : public Task {
 public:
  using Task::Task;

 private:
  virtual Sequence draw(Draws& draws) const = 0;

  Sequence make(Split split, Draws& draws) const final;
};

// The split that sequences with these tokens belong to.
Split split_of(const std::vector<std::int32_t>& tokens);

// From whole text x_0 .. x_T: tokens x_0 .. x_{T-1}, and no target counts yet.
Sequence uncounted(const std::vector<std::int32_t>& text);

// "a" .. "z", "a1" .. "z1", "a2" ...
std::string letter(std::int64_t index);

// The value that was asked for, or the task's own where none was; throws below `least`.
std::int64_t context_or(const TaskOptions& options, std::int64_t own, std::int64_t least);
std::int64_t vocabulary_or(const TaskOptions& options, std::int64_t own, std::int64_t least);

}  // namespace polyhead::train
