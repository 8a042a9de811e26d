// A model, with what it is examined on: the task that it was trained on or, for one with a tokenizer, a text.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "exam/reading.h"
#include "model/transformer.h"
#include "train/plan.h"
#include "train/task.h"

namespace polyhead::exam {

struct Subject {
  std::unique_ptr<model::Transformer> model;
  std::string about;  // the task's name, or the text's

  // Only for a model that polyhead trained.
  train::Plan plan{};
  std::unique_ptr<train::Task> task{};

  Reading reading{};  // if there is no task
};

// From a folder that polyhead train or prune made, into the context's memory. `text`: where the task's text is now, if
// it was moved.
// Refuses (input) any other folder, weights that do not fit the config, and a model that does not fit its task.
Subject load_subject(const Context& context, const std::filesystem::path& folder,
                     const std::filesystem::path& text = {});

// A model with a tokenizer, into the context's memory, and a text. Refuses (input) what cannot be loaded.
Subject load_reader(const Context& context, const std::filesystem::path& model, const std::filesystem::path& text);

}  // namespace polyhead::exam
