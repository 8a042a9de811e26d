// What the tasks that invent their sequences have in common.
#pragma once

#include <string>

#include "core/draws.h"
#include "train/task.h"

namespace polyhead::train {

// A sequence always belongs to one split: a hash of its tokens sends one in eight to validation, whatever the seed. So
// the two splits are disjoint, even in tasks with few sequences.
class RandomTask : public Task {
 public:
  using Task::Task;

 private:
  virtual Sequence draw(Draws& draws) const = 0;

  Sequence make(Split split, Draws& draws) const final;
};

// The split that sequences with these tokens belong to.
Split split_of(const std::vector<std::int32_t>& tokens);

// From a whole text x_0 .. x_T: tokens x_0 .. x_{T-1}, with no target that counts yet.
Sequence uncounted(const std::vector<std::int32_t>& text);

// "a" .. "z", "a1" .. "z1", "a2" ...
std::string letter(std::int64_t index);

// The value asked for, or the task's own if none is; throws below `least` and above 2^24.
std::int64_t context_or(const TaskOptions& options, std::int64_t own, std::int64_t least);
std::int64_t vocabulary_or(const TaskOptions& options, std::int64_t own, std::int64_t least);

}  // namespace polyhead::train
