#include <algorithm>

#include "heads/importance.h"
#include "heads/roles.h"
#include "replicate/experiments.h"
#include "train/trainer.h"

namespace polyhead::replicate {
namespace {

// Attention alone, of two heads a layer: what the paper's smallest models are.
constexpr std::int64_t kWidth = 128, kHeads = 2, kSteps = 300, kBatch = 32;
constexpr double kRate = 2e-3;

struct Formed {
  double score = 0, accuracy = 0;  // the best head's weight on the token after the earlier occurrence
};

Formed formed(Context& context, std::int64_t layers, std::uint64_t seed) {
  const auto task = train::make_task({.name = "repeat", .seed = seed});
  model::Config config = model::make_config(model::Kind::gpt, layers, kWidth, kHeads);
  config.feed_forward = model::FeedForward::none;
  train::fit_to_task(config, *task);
  model::Transformer model(config, seed);
  train::Trainer trainer(context, model, *task, {.steps = kSteps, .batch = kBatch, .rate = kRate, .seed = seed});
  while (!trainer.done()) trainer.step();
  heads::RepeatProbe options{.batch = 16, .length = task->context(), .shortest = 16, .longest = 31, .seed = 11};
  const std::vector<std::int32_t> special = task->special_tokens();
  for (std::int32_t token = 0; token < task->vocabulary(); ++token) {
    if (std::find(special.begin(), special.end(), token) == special.end()) options.alphabet.push_back(token);
  }
  options.beginning = {special.at(0)};
  std::vector<heads::Probe> probes;
  probes.push_back(heads::make_repeats(options));
  Formed found;
  for (const heads::HeadSurvey& head : heads::survey(context, model, probes).heads) {
    found.score = std::max(found.score, head.target(heads::kInduction));
  }
  found.accuracy = train::evaluate(context, model, *task, train::Split::validation, 4, kBatch).accuracy();
  return found;
}

}  // namespace

Result induction_forms(Context& context, const Effort& effort) {
  std::vector<double> two, one, two_right, one_right;
  for (std::int64_t seed = 1; seed <= effort.seeds; ++seed) {
    const Formed deep = formed(context, 2, static_cast<std::uint64_t>(seed)),
                 flat = formed(context, 1, static_cast<std::uint64_t>(seed));
    two.push_back(deep.score);
    one.push_back(flat.score);
    two_right.push_back(deep.accuracy);
    one_right.push_back(flat.accuracy);
  }
  Result result;
  result.ours = {"weight on the token after the earlier occurrence, best head of two layers", heads::estimate(two)};
  result.control = {"best head of one layer", heads::estimate(one)};
  result.further = {{"tokens predicted in copies, two layers", heads::estimate(two_right), Unit::percent},
                    {"one layer", heads::estimate(one_right), Unit::percent}};
  const double least = *std::min_element(two.begin(), two.end()), most = *std::max_element(one.begin(), one.end());
  result.verdict = least >= 0.4 && most < 0.4 ? Verdict::comes_out : least >= 0.4 ? Verdict::partly : Verdict::not_here;
  result.sentence = "With two layers the best head gives " + text_of(result.ours) +
                    " of its weight to the token after the earlier occurrence, with one layer " +
                    text_of(result.control) + "; two layers predict " + text_of(result.further[0]) +
                    " of the copies, one layer " + text_of(result.further[1]) + " (" + std::to_string(effort.seeds) +
                    (effort.seeds == 1 ? " seed)." : " seeds).");
  return result;
}

}  // namespace polyhead::replicate
