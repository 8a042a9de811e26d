// What a training run does, and run.json, which says so.
#pragma once

#include <filesystem>
#include <string>

#include "model/config.h"
#include "train/task.h"
#include "train/trainer.h"

namespace polyhead::train {

inline constexpr const char* kPlanFile = "run.json";

struct Plan {
  TaskOptions task{};            // of which the text is not kept ...
  std::filesystem::path file{};  // ... but the file that it comes from,
  std::string text_mark{};       // and what tells whether that file has changed: size and hash
  model::Config model{};         // in config.json; vocabulary, context and classes are the task's
  TrainOptions training{};
  std::int64_t save_every = 100;  // steps from one checkpoint to the next
  std::string target{};           // what it was begun on (target_of): another one gives other bits
  bool pruned = false;            // the model has lost heads since: there is no run to go on with
};

// Sizes, rate and steps with which two cores solve the task in a minute or so, and learn something of a text.
Plan plan_for(const std::string& task);

// run.json; the model's part is in config.json beside it.
void save_plan(const Plan& plan, const std::filesystem::path& folder);
// Refuses (code input) a folder where no run was begun, and files that are none of ours.
Plan load_plan(const std::filesystem::path& folder);

}  // namespace polyhead::train
