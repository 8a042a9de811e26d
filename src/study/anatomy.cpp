#include "study/anatomy.h"

#include <algorithm>
#include <chrono>

#include "study/formation.h"

namespace polyhead::study {
namespace {

constexpr std::int64_t kSequences = 64;

// Sequences of the task; a causal model predicts the word at `query` from the row before it.
std::vector<heads::Probe> probes_of(const train::Task& task, std::int64_t batches) {
  std::vector<heads::Probe> probes;
  for (std::int64_t n = 0; n < batches; ++n) {
    const auto index = static_cast<std::uint64_t>(n);
    const train::Batch batch = task.batch(train::Split::validation, index, kSequences);
    heads::Probe& probe =
        probes.emplace_back(heads::make_probe(batch.tokens, batch.lengths, task.special_tokens(), index));
    for (std::int64_t b = 0; b < kSequences; ++b) {
      for (const train::Link& link : task.sequence(train::Split::validation, index, b).links) {
        if (link.query - 1 != link.key) probe.relations.push_back({b, link.query - 1, link.key, link.relation});
      }
    }
  }
  return probes;
}

std::vector<model::Examples> examples_of(const train::Task& task, std::int64_t first, std::int64_t batches) {
  std::vector<model::Examples> examples;
  for (std::int64_t n = first; n < first + batches; ++n) {
    examples.push_back(task.batch(train::Split::validation, static_cast<std::uint64_t>(n), kSequences));
  }
  return examples;
}

std::vector<std::int64_t> token_counts(const train::Task& task) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(task.vocabulary()));
  for (std::uint64_t n = 0; n < 8; ++n) {
    const train::Batch batch = task.batch(train::Split::train, n, kSequences);
    for (std::int64_t i = 0; i < count_of(batch.tokens.shape()); ++i) {
      ++counts[static_cast<std::size_t>(batch.tokens.as<std::int32_t>()[i])];
    }
  }
  return counts;
}

void take_apart(Context& context, const AnatomyPlan& plan, const Watch& watch, Anatomy& to) {
  model::Transformer& model = *to.course.model;
  const train::Task& task = *to.course.task;
  const std::vector<heads::Probe> plain = probes_of(task, plan.batches), repeats = repeat_probes(task);
  const std::vector<std::int64_t> counts = token_counts(task);
  to.survey = heads::survey(context, model, plain, counts);
  to.roles = heads::roles(to.survey, heads::survey(context, model, repeats));
  model::Transformer fresh(model.config(), 1234);
  to.untrained = heads::roles(heads::survey(context, fresh, plain, counts), heads::survey(context, fresh, repeats));
  to.agreement = heads::agreement(to.survey);
  for (const auto& [name, offset] : to.survey.chance.relations) {
    RelationFound& found = to.relations[name];
    found.offset = offset;
    for (const heads::HeadSurvey& head : to.survey.heads) {
      const double accuracy = head.relations.at(name).value();
      if (accuracy > found.accuracy) found = {accuracy, offset, head.id};
    }
  }
  const std::vector<model::Examples> ranking = examples_of(task, 0, plan.batches),
                                     judging = examples_of(task, plan.batches, plan.batches);
  to.importance = heads::importance(context, model, ranking);
  std::vector<double> gradient, damage;
  for (const heads::Importance& head : to.importance) {
    gradient.push_back(head.gradient);
    damage.push_back(head.zero.mean);
  }
  to.rank_correlation = heads::rank_correlation(gradient, damage);
  const auto curve = [&](heads::Order order, std::uint64_t seed) {
    return heads::prune(context, model, ranking, judging, {.order = order, .seed = seed, .to_the_end = true},
                        [&](const heads::PruneStep&) { watch(); });
  };
  to.iterative = curve(heads::Order::iterative, 0);
  to.one_shot = curve(heads::Order::one_shot, 0);
  for (std::size_t n = 0; n < plan.random_orders; ++n) to.random.push_back(curve(heads::Order::random, n + 1));
  to.pruned = heads::without_heads(model, to.iterative.removed());
}

double milliseconds(Context& context, model::Transformer& model, const ConstTensorView& tokens) {
  const auto begin = std::chrono::steady_clock::now();
  autograd::Tape tape(context, false);
  model.forward(tape, tokens);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

Job dissect(const AnatomyPlan& plan, const Watch& watch, Anatomy& to) {
  return [=, &to](Context& context) {
    const train::TrainOptions training{.steps = plan.steps, .batch = plan.batch, .rate = plan.rate};
    to.course = follow(context, make_plan(plan.task, plan.layers, plan.width, plan.heads, training), plan.every, watch);
    take_apart(context, plan, watch, to);
  };
}

void measure_saving(Context& context, Anatomy& anatomy) {
  const auto task_batch = [&](std::int64_t size) {
    return anatomy.course.task->batch(train::Split::validation, 0, size);
  };
  Saving* const sides[] = {&anatomy.before, &anatomy.after};
  model::Transformer* const models[] = {anatomy.course.model.get(), anatomy.pruned.get()};
  for (int side = 0; side < 2; ++side) {
    sides[side]->heads = models[side]->config().head_count();
    sides[side]->parameters = models[side]->parameter_count();
  }
  anatomy.before.accuracy = anatomy.iterative.accuracy;
  const std::size_t taken = anatomy.iterative.within_budget;
  anatomy.after.accuracy = taken == 0 ? anatomy.iterative.accuracy : anatomy.iterative.steps[taken - 1].accuracy;
  for (const std::int64_t size : {1, 16}) {
    const train::Batch batch = task_batch(size);
    std::vector<double> times[2];
    for (int round = 0; round < 41; ++round) {  // in turns, so that a slow spell hits both
      for (int side = 0; side < 2; ++side) times[side].push_back(milliseconds(context, *models[side], batch.tokens));
    }
    for (int side = 0; side < 2; ++side) {
      (size == 1 ? sides[side]->milliseconds_1 : sides[side]->milliseconds_16) = median(times[side]);
    }
  }
}

}  // namespace polyhead::study
