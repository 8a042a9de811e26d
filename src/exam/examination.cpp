#include "exam/examination.h"

#include <algorithm>

#include "model/memory.h"

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
    gradient.push_back(head.normalised);
    zero.push_back(head.zero.mean);
    mean.push_back(head.mean.mean);
  }
  found.gradient_and_zero = heads::rank_correlation(gradient, zero);
  found.gradient_and_mean = heads::rank_correlation(gradient, mean);
  found.zero_and_mean = heads::rank_correlation(zero, mean);
}

// `whole` receives the scores of the model; an encoder has none.
std::vector<HeadImportance> importance_of(Context& context, const model::Transformer& model, const Material& material,
                                          const ExamineOptions& options, model::SequenceScores& whole) {
  if (model.config().kind != model::Kind::encoder) {
    return options.damage ? heads::importance(context, model, material.judging, *options.damage, &whole)
                          : heads::gradient_importance(context, model, material.judging, {}, nullptr, &whole);
  }
  if (options.damage) return heads::embedding_importance(context, model, material.judging, *options.damage);
  std::vector<HeadImportance> heads;
  for (const HeadId& id : model::all_heads(model.config())) heads.emplace_back().id = id;
  return heads;
}

}  // namespace

void expect_memory(std::string_view op, const model::Config& config, const Material& material, bool backward,
                   int copies) {
  const Tensor& tokens = material.plain[0].tokens;
  model::expect_memory(
      op, config, copies,
      {.batch = tokens.shape()[0], .tokens = tokens.shape()[1], .backward = backward, .row_statistics = true});
}

std::vector<heads::HeadRoles> roles_of(Context& context, model::Transformer& model, const Material& material) {
  return heads::roles(heads::survey(context, model, material.plain, material.counts),
                      heads::survey(context, model, material.repeats, material.counts));
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
  // The model is there; its weights laid out for products and an untrained one are not.
  expect_memory("examine", model.config(), material, true, 2);
  const auto begin = [&](const char* stage) {
    if (options.on_stage) options.on_stage(stage);
  };
  Examination found;
  model::SequenceScores whole;
  begin("importance");
  found.importance = importance_of(context, model, material, options, whole);
  found.loss = whole.mean_loss();
  found.accuracy = whole.accuracy();
  begin("where they look");
  found.survey = heads::survey(context, model, material.plain, material.counts);
  found.roles = heads::roles(found.survey, heads::survey(context, model, material.repeats, material.counts));
  begin("an untrained model");
  model::Transformer untrained(model.config(), options.seed, model.dtype(), model.memory(), context.threads());
  found.untrained = roles_of(context, untrained, material);
  found.nearest = nearest_of(found.survey);
  correlate(found);
  return found;
}

}  // namespace polyhead::exam
