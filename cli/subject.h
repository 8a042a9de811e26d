// What `polyhead heads` and `prune` examine, and on what.
#pragma once

#include "cli/commands.h"
#include "exam/material.h"
#include "exam/subject.h"

namespace polyhead::cli {

// Tokens in a window of a text: as many as asked for, or as the model has room for, which the user is then told.
std::int64_t window_length(std::int64_t asked, const model::Config& config);
std::int64_t windows_at_once(std::int64_t length);  // how many a pass reads

struct SubjectChoice {
  std::string model, file, text;
  std::optional<std::int64_t> samples;
  std::int64_t length = 128, seed = 1;

  Option model_option(const std::string& name = "MODEL");
  Option samples_option();
  std::vector<Option> text_options();

  void expect_model() const;                         // Failure (usage) if no model was named
  exam::Subject load(const Context& context) const;  // Failure (usage) if a text is missing or not wanted
  exam::Material material(const exam::Subject& subject) const;
  std::int64_t sample_count(const exam::Subject& subject) const;
};

}  // namespace polyhead::cli
