#include "study/comparison.h"

#include <algorithm>
#include <numeric>

#include "heads/probe.h"

namespace polyhead::study {
namespace {

train::Plan plan_of(const ComparisonPlan& plan, std::int64_t heads, std::uint64_t seed) {
  const train::TrainOptions training{.steps = plan.steps, .batch = plan.batch, .rate = plan.rate, .seed = seed};
  train::Plan made = make_plan(plan.task, plan.layers, plan.width, heads, training);
  made.model.hidden = plan.hidden;
  return made;
}

std::vector<double> entropies_of(Context& context, Course& course) {
  const train::Batch batch = course.task->batch(train::Split::validation, 0, 64);
  std::vector<heads::Probe> probes;
  probes.push_back(heads::make_probe(batch.tokens, batch.lengths, course.task->special_tokens(), 1));
  std::vector<double> found;
  for (const heads::HeadSurvey& head : heads::survey(context, *course.model, probes).heads) {
    found.push_back(head.mean(Statistic::normalised_entropy, Statistic::normalised_rows));
  }
  return found;
}

}  // namespace

std::string heads_text(std::int64_t count) { return std::to_string(count) + (count == 1 ? " head" : " heads"); }

Spread spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()), *high};
}

Spread final_accuracy(const Contender& contender) {
  std::vector<double> values;
  for (const Course& course : contender.courses) values.push_back(course.accuracy());
  return spread(values);
}

StepsToSolve steps_to_solve(const Contender& contender) {
  std::vector<double> values;
  for (const Course& course : contender.courses) {
    if (const auto steps = course.steps_to(kSolved)) values.push_back(static_cast<double>(*steps));
  }
  if (values.empty()) return {};
  return {spread(values), values.size()};
}

std::vector<Job> compare(const ComparisonPlan& plan, const Watch& watch, std::vector<Contender>& contenders) {
  std::vector<Job> jobs;
  for (const std::int64_t heads : kHeadCounts) {
    Contender& contender = contenders.emplace_back(Contender{plan.task, heads, {}, {}});
    contender.courses.resize(plan.seeds);
    contender.entropies.resize(plan.seeds);
  }
  const std::size_t first = contenders.size() - std::size(kHeadCounts);
  for (std::size_t seed = 0; seed < plan.seeds; ++seed) {
    for (std::size_t n = 0; n < std::size(kHeadCounts); ++n) {
      jobs.push_back([=, &contenders](Context& context) {
        Contender& contender = contenders[first + n];
        contender.courses[seed] = follow(context, plan_of(plan, contender.heads, seed + 1), plan.every, watch);
        contender.entropies[seed] = entropies_of(context, contender.courses[seed]);
      });
    }
  }
  return jobs;
}

}  // namespace polyhead::study
