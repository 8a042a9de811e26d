// What a training run does, and run.json, where that is written.
#pragma once

#include <filesystem>
#include <string>

#include "model/config.h"
#include "train/task.h"
#include "train/trainer.h"

namespace polyhead::train {

inline constexpr const char* kPlanFile = "run.json";

struct Plan {
  TaskOptions task{};            // the text itself is not kept ...
  std::filesystem::path file{};  // ... but the file it comes from,
  std::string text_mark{};       // and its size and hash, to see whether it has changed
  model::Config model{};         // in config.json; vocabulary, context and classes are the task's
  TrainOptions training{};
  std::int64_t save_every = 100;  // steps from one checkpoint to the next
  std::string target{};           // where the run began (target_of): another target gives other bits
  bool pruned = false;            // the model has lost heads since: the run cannot be resumed
};

// Sizes, rate and steps with which two cores solve the task in a minute or so, or learn something from a text.
Plan plan_for(const std::string& task);

// run.json; the model's part is in config.json beside it.
void save_plan(const Plan& plan, const std::filesystem::path& folder);
// Refuses (input) a folder without a run, and files that polyhead did not write.
Plan load_plan(const std::filesystem::path& folder);

}  // namespace polyhead::train
