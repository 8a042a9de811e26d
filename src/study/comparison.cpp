#include "study/comparison.h"

#include <algorithm>
#include <numeric>

#include "heads/probe.h"
#include "heads/survey.h"

namespace polyhead::study {
namespace {

train::Plan plan_of(const ComparisonPlan& plan, std::int64_t heads, std::uint64_t seed) {
  const train::TrainOptions training{.steps = plan.steps, .batch = plan.batch, .rate = plan.rate, .seed = seed};
  train::Plan made = make_plan(plan.task, plan.layers, plan.width, heads, training);
  made.model.hidden = plan.hidden;
  return made;
}

Observer entropies_on(Context& context, const std::string& task_name) {
  const std::unique_ptr<train::Task> task = train::make_task({.name = task_name});
  const train::Batch batch = task->batch(train::Split::validation, 0, 64);
  auto probes = std::make_shared<std::vector<heads::Probe>>();
  probes->push_back(heads::make_probe(batch.tokens, batch.lengths, task->special_tokens(), 1));
  return [&context, probes](model::Transformer& model) {
    std::vector<double> found;
    for (const heads::HeadSurvey& head : heads::survey(context, model, *probes).heads) {
      found.push_back(head.mean(Statistic::normalised_entropy, Statistic::normalised_rows));
    }
    return found;
  };
}

Route route_of(const ComparisonPlan& plan, std::int64_t heads, std::size_t seed, const std::filesystem::path& models) {
  return {.every = plan.every,
          .enough = kSolved,
          .keep_model = seed == 1,
          .folder = models / name_of_seed(plan.task + "-" + std::to_string(heads), seed)};
}

}  // namespace

std::string heads_text(std::int64_t count) { return std::to_string(count) + (count == 1 ? " head" : " heads"); }

std::string name_of_seed(const std::string& name, std::size_t seed) {
  return seed == 1 ? name : name + "-seed-" + std::to_string(seed);
}

Spread spread(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()), *high};
}

std::size_t Contender::solved() const {
  return static_cast<std::size_t>(std::count_if(
      courses.begin(), courses.end(), [](const Course& course) { return course.steps_to(kSolved).has_value(); }));
}

std::vector<double> Contender::entropies(std::size_t seed) const { return courses[seed].points.back().observed; }

std::vector<double> Contender::mean_entropies() const {
  std::vector<double> means;
  for (std::size_t seed = 0; seed < courses.size(); ++seed) {
    if (courses[seed].steps_to(kSolved)) means.push_back(spread(entropies(seed)).mean);
  }
  return means;
}

Spread final_accuracy(const Contender& contender) {
  std::vector<double> values;
  for (const Course& course : contender.courses) values.push_back(course.accuracy());
  return spread(values);
}

std::optional<Spread> steps_to_solve(const Contender& contender) {
  std::vector<double> values;
  for (const Course& course : contender.courses) {
    if (const auto steps = course.steps_to(kSolved)) values.push_back(static_cast<double>(*steps));
  }
  if (values.empty()) return std::nullopt;
  return spread(values);
}

double work_of(const ComparisonPlan& plan, const std::filesystem::path& models) {
  double work = 0;
  for (const std::int64_t heads : kHeadCounts) {
    for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
      work += work_of(plan_of(plan, heads, seed), route_of(plan, heads, seed, models));
    }
  }
  return plan.expected * work;
}

std::vector<Job> compare(const ComparisonPlan& plan, const std::filesystem::path& models, const Watch& watch,
                         std::vector<Contender>& contenders) {
  std::vector<Job> jobs;
  for (const std::int64_t heads : kHeadCounts) {
    contenders.push_back({plan.task, heads, {}});
    contenders.back().courses.resize(plan.seeds);
  }
  for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
    for (std::size_t n = 0; n < std::size(kHeadCounts); ++n) {
      jobs.push_back([=, &contenders](Context& context) {
        Contender& contender = contenders[n];
        contender.courses[seed - 1] =
            follow(context, plan_of(plan, contender.heads, seed), route_of(plan, contender.heads, seed, models), watch,
                   entropies_on(context, plan.task));
      });
    }
  }
  return jobs;
}

}  // namespace polyhead::study
