#include "exam/examination.h"

#include <algorithm>

#include "core/processors.h"
#include "heads/kept_roles.h"
#include "heads/sinks.h"
#include "model/memory.h"
#include "ops/call.h"

namespace polyhead::exam {
namespace {

std::vector<Nearest> nearest_of(const heads::Survey& survey) {
  const std::vector<std::vector<double>> agreement = heads::agreement(survey);
  std::vector<Nearest> nearest;
  for (std::size_t a = 0; a < agreement.size(); ++a) {
    Nearest best{survey.heads[a].id, -1};
    for (std::size_t b = 0; b < agreement.size(); ++b) {
      if (b != a && agreement[a][b] > best.agreement) best = {survey.heads[b].id, agreement[a][b]};
    }
    if (agreement.size() == 1) best.agreement = 1;
    nearest.push_back(best);
  }
  return nearest;
}

void correlate(Examination& found) {
  std::vector<double> gradient, zero, mean;
  for (const HeadImportance& head : found.importance) {
    if (!heads::has_damage(head)) continue;
    gradient.push_back(head.normalised);
    zero.push_back(head.zero.mean);
    mean.push_back(head.mean.mean);
  }
  found.gradient_and_zero = heads::rank_correlation(gradient, zero);
  found.gradient_and_mean = heads::rank_correlation(gradient, mean);
  found.zero_and_mean = heads::rank_correlation(zero, mean);
}

// The gradients of the gates, if they are wanted and there are any. `whole` receives the scores of the model; an
// encoder has none.
std::vector<HeadImportance> gradients_of(Context& context, const model::Transformer& model, const Material& material,
                                         const ExamineOptions& options, model::SequenceScores& whole) {
  const bool encoder = model.config().kind == model::Kind::encoder, first = options.ranks->rank() == 0;
  if (options.gradient && !encoder && first) {
    return heads::gradient_importance(context, model, material.judging, {}, nullptr, &whole);
  }
  std::vector<HeadImportance> heads;
  for (const HeadId& id : model::all_heads(model.config())) heads.emplace_back().id = id;
  if (!encoder && first) whole = model::score(context, model, material.judging);
  whole.expect_finite("the model");
  return heads;
}

void add_damage(Context& context, const model::Transformer& model, const Material& material,
                const ExamineOptions& options, Examination& found) {
  heads::DamageOptions damage = *options.damage;
  damage.ranks = options.ranks;
  if (options.order) damage.order = options.order(found);
  if (model.config().kind == model::Kind::encoder) {
    found.importance = heads::embedding_importance(context, model, material.judging, damage);
  } else {
    heads::add_damage(context, model, material.judging, damage, found.importance);
  }
}

int host_threads(const Context& context) {
  return ops::takes_processors(context) ? context.threads() : usable_processors();
}

// What heads of a model of the same shape do before training. The distribution and the rounding do not matter here, so
// both are fast.
std::vector<heads::HeadRoles> untrained_roles(Context& context, const model::Transformer& model,
                                              const Material& material, std::uint64_t seed) {
  const auto draw = [&] {
    return std::make_unique<model::Transformer>(model.config(), seed, model.dtype(), model.allocator(),
                                                host_threads(context), model::Drawn::uniform);
  };
  if (material.tokenizer != nullptr) {
    auto roles = heads::untrained_roles(context, model.config(), *material.tokenizer, seed, draw);
    if (!roles.empty()) return roles;
  }
  const std::unique_ptr<model::Transformer> untrained = draw();
  autograd::Tape tape(context, false);
  tape.pack_weights(ops::Products::coarse);
  return heads::survey_roles(tape, *untrained, material.probes).roles;
}

// Relations come from the material alone; they are more specific than what follows them.
void add_relations(const heads::Survey& plain, std::vector<heads::HeadRoles>& to) {
  if (plain.chance.relations.empty()) return;
  const std::vector<heads::HeadRoles> found = heads::roles(plain, plain);
  for (std::size_t n = 0; n < to.size(); ++n) {
    const auto at = std::find_if(to[n].scores.begin(), to[n].scores.end(),
                                 [](const auto& score) { return score.role == heads::kPreviousRole; });
    std::vector<heads::RoleScore> relations = found[n].scores;
    std::erase_if(relations, [&](const auto& score) { return !plain.chance.relations.contains(score.role); });
    to[n].scores.insert(at, relations.begin(), relations.end());
  }
}

// The model is in memory already; its packed weights and the untrained model are not.
void expect_room(const model::Config& config, const Material& material, bool gradient) {
  const auto expect = [&](const Tensor& tokens, model::Pass pass) {
    pass.batch = tokens.shape()[0];
    pass.tokens = tokens.shape()[1];
    model::expect_memory(
        "examine", config, 2, pass, 0,
        gradient ? "take shorter windows or fewer, or leave the gradient out" : "take shorter windows or fewer");
  };
  const auto larger = [](const heads::Probe& a, const heads::Probe& b) {
    return a.tokens.view().count() < b.tokens.view().count();
  };
  const auto largest = std::max_element(material.probes.plain.begin(), material.probes.plain.end(), larger);
  expect(largest->tokens, {.row_statistics = true, .last_only = true});  // a survey makes no logits
  if (gradient) expect(material.judging[0].tokens, {.backward = true});
}

}  // namespace

void expect_memory(std::string_view op, const model::Config& config, const Material& material, bool backward,
                   int copies) {
  const Tensor& tokens = material.probes.plain[0].tokens;
  model::expect_memory(
      op, config, copies,
      {.batch = tokens.shape()[0], .tokens = tokens.shape()[1], .backward = backward, .row_statistics = true});
}

heads::SurveyedRoles survey_roles(Context& context, const model::Transformer& model, const Material& material) {
  std::vector<heads::HeadRoles> roles;
  if (material.tokenizer != nullptr) roles = heads::standard_roles(context, model, *material.tokenizer);
  if (roles.empty()) return heads::survey_roles(context, model, material.probes);
  heads::Survey plain = heads::survey(context, model, material.probes.plain, material.probes.counts);
  add_relations(plain, roles);
  return {std::move(plain), std::move(roles)};
}

double highest(const std::vector<heads::HeadRoles>& heads, const std::string& role) {
  double most = 0;
  for (const heads::HeadRoles& head : heads) {
    for (const heads::RoleScore& score : head.scores) most = score.role == role ? std::max(most, score.score) : most;
  }
  return most;
}

Examination examine(Context& context, model::Transformer& model, const Material& material,
                    const ExamineOptions& options) {
  expect_room(model.config(), material, options.gradient && model.config().kind != model::Kind::encoder);
  const auto begin = [&](const char* stage) {
    if (options.on_stage) options.on_stage(stage);
  };
  Examination found;
  model::SequenceScores whole;
  begin("importance");
  found.importance = gradients_of(context, model, material, options, whole);
  if (options.ranks->rank() == 0) {
    found.loss = whole.mean_loss();
    found.accuracy = whole.accuracy();
    begin("where they look");
    heads::SurveyedRoles surveyed = survey_roles(context, model, material);
    found.survey = std::move(surveyed.plain);
    found.roles = std::move(surveyed.roles);
    begin("an untrained model");
    found.untrained = untrained_roles(context, model, material, options.seed);
    found.nearest = nearest_of(found.survey);
    if (!material.sinks.empty()) found.sinks = heads::sink_share(context, model, material.sinks);
  }
  if (options.damage) {
    begin("damage");
    add_damage(context, model, material, options, found);
  }
  correlate(found);
  return found;
}

}  // namespace polyhead::exam
