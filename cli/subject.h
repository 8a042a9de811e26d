// What `polyhead heads` and `prune` examine, and on what.
#pragma once

#include "cli/commands.h"
#include "exam/material.h"
#include "exam/subject.h"

namespace polyhead::cli {

struct SubjectChoice {
  std::string model, file, text;
  std::optional<std::int64_t> samples;
  std::int64_t length = 128, seed = 1;

  Option model_option(const std::string& name = "MODEL");
  Option samples_option();
  std::vector<Option> text_options();

  void expect_model() const;                         // Failure (usage): no model was named
  exam::Subject load(const Context& context) const;  // Failure (usage): a text that it cannot do with, or without
  exam::Material material(const exam::Subject& subject) const;
  std::int64_t sample_count(const exam::Subject& subject) const;
};

}  // namespace polyhead::cli
