// Everything that is said about the heads of one model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exam/material.h"
#include "heads/importance.h"
#include "heads/roles.h"

namespace polyhead::exam {

// The other head whose largest weights lie on the same keys most often (the first of equals), and how often. A model's
// only head has itself.
struct Nearest {
  HeadId id;
  double agreement = 0;
};

// Everything in the order of model::all_heads.
struct Examination {
  double loss = 0, accuracy = 0;  // of the whole model, on `judging`; an encoder has none
  heads::Survey survey;           // on the plain probes
  std::vector<heads::HeadRoles> roles;
  std::vector<heads::HeadRoles> untrained;  // of a model of the same shape before training: a control
  std::vector<HeadImportance> importance;   // for an encoder: by its embedding, without gradients
  std::vector<Nearest> nearest;
  std::optional<Estimate> sinks;  // the share of heads that rest on the first token, if the material has `sinks`

  // Rank correlations between the normalised gradient and the two kinds of damage, over heads whose damage was
  // measured.
  double gradient_and_zero = 0, gradient_and_mean = 0, zero_and_mean = 0;
};

struct ExamineOptions {
  std::uint64_t seed = 1;  // of the untrained model
  // The gradient of every gate. The backward pass keeps all results of the forward pass, which costs memory on long
  // sequences.
  bool gradient = true;
  // The damage of every head in turn, which takes most of the time.
  std::optional<heads::DamageOptions> damage = heads::DamageOptions{};
  // Chooses the heads whose damage is measured, and their order, by all that is known of them by then; absent: all, as
  // they come. Not on several ranks.
  std::function<std::vector<HeadId>(const Examination&)> order{};
  std::function<void(const std::string&)> on_stage{};  // receives what begins: "where they look"
  // Share the damage. Rank 0 alone finds out the rest; on the others it stays empty.
  Ranks* ranks = &alone();
};
// Throws Error (value), before anything is allocated, if a pass over the material and `copies` of the model take more
// memory than there is.
void expect_memory(std::string_view op, const model::Config& config, const Material& material, bool backward,
                   int copies);

Examination examine(Context& context, model::Transformer& model, const Material& material,
                    const ExamineOptions& options = {});

// What heads do on the material's plain probes, and their roles: by the standard probe if the model comes with a
// tokenizer, else by the material.
heads::SurveyedRoles survey_roles(Context& context, const model::Transformer& model, const Material& material);

// The highest score of any head in this role; 0 if there is none.
double highest(const std::vector<heads::HeadRoles>& heads, const std::string& role);

}  // namespace polyhead::exam
