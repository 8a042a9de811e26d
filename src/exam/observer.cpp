#include "exam/observer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "autograd/functions.h"
#include "core/numbers.h"
#include "exam/material.h"
#include "heads/kept_roles.h"
#include "heads/standard_probe.h"
#include "model/checkpoint.h"
#include "model/memory.h"
#include "model/score.h"
#include "ops/on_host.h"
#include "train/run.h"

namespace polyhead::exam {
namespace {

constexpr std::int64_t kLikely = 8;  // candidates for the next token
constexpr std::int64_t kRepeats = 8, kRepeatLength = 64;

Tensor row_of(const std::vector<std::int32_t>& tokens) {
  Tensor row = Tensor::empty({1, std::ssize(tokens)}, DType::i32);
  std::copy(tokens.begin(), tokens.end(), row.as<std::int32_t>());
  return row;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

double cosine_distance(const std::vector<double>& a, const std::vector<double>& b) {
  const double ab = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double aa = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double bb = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  return 1 - ab / std::sqrt(aa * bb);
}

// The target of each row is the next token; that of the last is arbitrary.
std::vector<std::int32_t> targets_of(const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> targets(tokens.begin() + 1, tokens.end());
  targets.push_back(0);
  return targets;
}

// Puts the model's output for one text into the observation.
void read_output(autograd::Tape& tape, const model::Config& config, autograd::Variable output, Observation& seen) {
  if (config.kind == model::Kind::encoder) {
    const Tensor pooled = widened(to_host(tape.context(), tape.value(pool(tape, output, {}))));
    seen.embedding.assign(pooled.as<float>(), pooled.as<float>() + config.width);
    model::expect_finite(seen.embedding, "the model: of its embedding, number");
    return;
  }
  if (config.kind == model::Kind::classifier) {
    seen.expected = model::expectations(tape, output, std::array{0}, config.classes).rows;
    return;
  }
  model::Expectations found = model::expectations(tape, output, targets_of(seen.tokens), kLikely);
  found.losses.pop_back();
  seen.expected = std::move(found.rows);
  seen.losses = std::move(found.losses);
}

// As `heads` finds them; none if what the model was trained on is not there any more.
std::vector<heads::HeadRoles> roles_of(Context& context, const model::Transformer& model,
                                       const std::filesystem::path& folder, const Language& language) {
  if (language.tokenizer() != nullptr) return heads::standard_roles(context, model, *language.tokenizer());
  try {
    train::Plan plan = train::load_plan(folder);
    return heads::survey_roles(context, model, make_material(*train::task_of(plan)).probes).roles;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Observer::Observer(Context& context, const std::filesystem::path& model)
    : context_(context),
      model_(model::load(model, context)),
      language_(language_of(model, model_->config())),
      separators_(language_->separators()),
      special_(language_->special()),
      tape_(context, false) {
  model::expect_memory("view", model_->config(), 0, {.batch = kRepeats, .tokens = kRepeatLength},
                       model::packed_bytes(*model_));
  tape_.pack_weights();
  roles_ = roles_of(context, *model_, model, *language_);
  if (!roles_.empty() || model_->config().head_count() == 0) return;
  heads::RepeatProbe random{.alphabet = language_->ordinary(),
                            .beginning = language_->beginning(),
                            .batch = kRepeats,
                            .length = std::min(kRepeatLength, model_->config().context)};
  repeats_ = heads::survey(tape_, *model_, heads::make_repeats(random, kRepeats), {}, {});
}

std::vector<std::int32_t> Observer::tokens_of(const std::string& text, std::int64_t most) const {
  const std::vector<std::int32_t> tokens = language_->tokens_of(text);
  if (text.find_first_not_of(" \t\r\n") == text.npos || tokens.empty()) {
    throw Error(ErrorCode::input, "text", "expected a text, found none; " + language_->hint());
  }
  const std::int64_t fits = std::min(most, model_->config().context);
  if (std::ssize(tokens) > fits) {
    throw Error(ErrorCode::input, "text",
                "expected up to " + std::to_string(fits) + " tokens, found " + std::to_string(tokens.size()) +
                    "; shorten the text");
  }
  return tokens;
}

model::Gates Observer::gates_of(const GateList& list) const {
  model::Gates gates(model_->config());
  for (const auto& [id, value] : list) gates.set(id, value);
  return gates;
}

Observation Observer::observe(const std::vector<std::int32_t>& tokens, const GateList& list) {
  model::expect_memory("view", model_->config(), 0, {.tokens = std::ssize(tokens), .row_statistics = true});
  model::Gates gates = gates_of(list);
  Observation seen{
      .tokens = tokens, .survey = {}, .roles = {}, .note = {}, .expected = {}, .losses = {}, .embedding = {}};
  std::vector<heads::Probe> probes;
  probes.push_back(heads::make_probe(row_of(tokens), {}, separators_, 1, special_));
  const auto read = [&](autograd::Variable output) { read_output(tape_, model_->config(), output, seen); };
  seen.survey =
      heads::survey(tape_, *model_, probes, {}, {.gates = list.empty() ? nullptr : gates.get(), .on_output = read});
  seen.roles = roles_.empty() ? heads::roles(seen.survey, repeats_) : roles_;
  if (!roles_.empty() || std::ssize(tokens) >= heads::kFewestTokens) return seen;
  for (heads::HeadRoles& head : seen.roles) {
    for (heads::RoleScore& score : head.scores) score.number_only = true;
  }
  seen.note = std::string("No roles are named: ") +
              (language_->tokenizer() != nullptr ? "the texts that tell them do not fit this model"
                                                 : "what this model was trained on is not there any more") +
              ", and a text of " + std::to_string(tokens.size()) + " tokens is too short to tell them by; it takes " +
              std::to_string(heads::kFewestTokens) + ".";
  return seen;
}

void Observer::pass_for_weights(const std::vector<std::int32_t>& tokens, const GateList& list,
                                std::optional<std::size_t> layer, const std::vector<std::int32_t>& heads,
                                double numbers) {
  model::expect_memory("view", model_->config(), 0, {.tokens = std::ssize(tokens)}, sizeof(float) * numbers);
  model::Gates gates = gates_of(list);
  const Tensor row = row_of(tokens);
  tape_.clear();
  model::PassOptions options{.gates = list.empty() ? nullptr : gates.get(), .wants_of = layer};
  options.last_only = model_->config().kind == model::Kind::gpt;  // the logits are not read
  options.wants.attention.weights = options.wants.attention.weights_f32 = true;
  options.wants.attention.weight_heads = heads;
  model_->forward(tape_, row, options);
}

Tensor Observer::weights_left_by(std::size_t layer) {
  const Tensor found = to_host(context_, model_->attention(tape_, layer).forward.weights);  // [1,H,T,T]
  Tensor result = Tensor::empty({found.shape()[1], found.shape()[2], found.shape()[3]}, DType::f32);
  std::copy_n(found.as<float>(), found.view().count(), result.as<float>());
  return result;
}

Tensor Observer::weights(const std::vector<std::int32_t>& tokens, const GateList& gates, std::size_t layer,
                         const std::vector<std::int32_t>& heads) {
  const std::int64_t T = std::ssize(tokens);
  const std::int64_t H = heads.empty() ? model_->config().layers.at(layer).heads : std::ssize(heads);
  pass_for_weights(tokens, gates, layer, heads, static_cast<double>(H * T * T));
  return weights_left_by(layer);
}

std::vector<Tensor> Observer::weights_of_all(const std::vector<std::int32_t>& tokens, const GateList& gates) {
  const std::int64_t T = std::ssize(tokens);
  pass_for_weights(tokens, gates, {}, {}, static_cast<double>(model_->config().head_count() * T * T));
  std::vector<Tensor> all;
  for (std::size_t layer = 0; layer < model_->config().layers.size(); ++layer) {
    all.push_back(model_->config().layers[layer].heads == 0 ? Tensor() : weights_left_by(layer));
  }
  return all;
}

std::int32_t Observer::next_token(const std::vector<std::int32_t>& tokens, const GateList& list) {
  model::expect_memory("view", model_->config(), 0, {.tokens = std::ssize(tokens)});
  model::Gates gates = gates_of(list);
  const Tensor row = row_of(tokens);
  tape_.clear();
  model::PassOptions options{.gates = list.empty() ? nullptr : gates.get()};
  options.last_only = true;
  return model::expectations(tape_, model_->forward(tape_, row, options), std::array{0}, 1).rows[0][0].token;
}

std::vector<HeadImportance> Observer::gradients(const std::vector<std::int32_t>& tokens) {
  if (model_->config().kind != model::Kind::gpt || tokens.size() < 2) return {};
  model::expect_memory("view", model_->config(), 0, {.tokens = std::ssize(tokens), .backward = true},
                       2 * model::packed_bytes(*model_));
  std::vector<std::int32_t> next = targets_of(tokens);
  next.back() = -1;
  std::vector<Examples> examples(1);
  examples[0].tokens = row_of(tokens);
  examples[0].targets = row_of(next);
  return heads::gradient_importance(context_, *model_, examples);
}

Damage Observer::damage(const Observation& whole, const HeadId& head) {
  model::Gates gates = gates_of({{head, 0.0F}});
  Observation without{
      .tokens = whole.tokens, .survey = {}, .roles = {}, .note = {}, .expected = {}, .losses = {}, .embedding = {}};
  const Tensor row = row_of(whole.tokens);
  tape_.clear();
  read_output(tape_, model_->config(), model_->forward(tape_, row, {.gates = gates.get()}), without);
  if (model_->config().kind == model::Kind::encoder) return {head, cosine_distance(whole.embedding, without.embedding)};
  if (model_->config().kind == model::Kind::gpt) return {head, mean(without.losses) - mean(whole.losses)};
  const model::Likely first = whole.expected[0][0];
  const auto same = std::find_if(without.expected[0].begin(), without.expected[0].end(),
                                 [&](const model::Likely& likely) { return likely.token == first.token; });
  return {head, std::log(first.probability / same->probability)};
}

}  // namespace polyhead::exam
