// A trained model, with the task that it was trained on.
#pragma once

#include <filesystem>
#include <memory>

#include "model/transformer.h"
#include "train/plan.h"
#include "train/task.h"

namespace polyhead::exam {

struct Subject {
  train::Plan plan;
  std::unique_ptr<train::Task> task;
  std::unique_ptr<model::Transformer> model;
};

// From a folder that polyhead train or prune made, into the context's memory. `text`: where the text of such a task is
// now, if it was moved.
// Refuses (input) what is no such folder, weights that the config does not ask for, and a model that is not one for its
// task.
Subject load_subject(const Context& context, const std::filesystem::path& folder,
                     const std::filesystem::path& text = {});

}  // namespace polyhead::exam
