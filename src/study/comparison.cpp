#include "study/comparison.h"

#include <algorithm>
#include <numeric>

#include "heads/probe.h"
#include "heads/survey.h"

namespace polyhead::study {
namespace {

constexpr std::int64_t kObserved = 32;  // sequences that entropies are measured on

train::Plan plan_of(const ComparisonPlan& plan, std::int64_t heads, std::uint64_t seed) {
  const train::TrainOptions training{.steps = plan.steps, .batch = plan.batch, .rate = plan.rate, .seed = seed};
  train::Plan made = make_plan(plan.task, plan.layers, plan.width, heads, training);
  made.model.hidden = plan.hidden;
  return made;
}

Observer entropies_on(Context& context, const std::string& task_name) {
  const std::unique_ptr<train::Task> task = train::make_task({.name = task_name});
  const train::Batch batch = task->batch(train::Split::validation, 0, kObserved);
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

bool is_dissected(const ComparisonPlan& plan, std::int64_t heads, std::size_t seed) {
  return heads == kDissected && seed <= plan.dissected;
}

Route route_of(const ComparisonPlan& plan, std::int64_t heads, std::size_t seed, const std::filesystem::path& models) {
  return {.every = plan.every,
          .sequences = plan.sequences,
          .enough = kSolved,
          .keep_model = seed == 1 || is_dissected(plan, heads, seed),
          .folder = models / name_of_seed(plan.task + "-" + std::to_string(heads), seed)};
}

// The curves of models that are taken apart go to the end, to be drawn.
RemovalPlan removal_of(const ComparisonPlan& plan, std::int64_t heads) {
  RemovalPlan removal = plan.removal;
  removal.to_the_end = heads == kDissected;
  return removal;
}

double work_of_removal(const ComparisonPlan& plan, std::int64_t heads) {
  return passes_of(removal_of(plan, heads), plan.layers * heads) *
         work_of_pass(plan_of(plan, heads, 1), plan.removal.samples);
}
double work_of_dissection(const ComparisonPlan& plan) {
  constexpr double kPasses = 24;  // over 256 sequences: gradients, surveys, each head out twice
  return kPasses * work_of_pass(plan_of(plan, kDissected, 1), 256);
}

Course course_of(Context& context, const ComparisonPlan& plan, std::int64_t heads, std::size_t seed,
                 const std::filesystem::path& models, const Watch& watch) {
  const RemovalPlan removal = removal_of(plan, heads);
  const std::unique_ptr<train::Task> task = train::make_task({.name = plan.task});
  const Conclusion conclusion{
      .mark = std::to_string(removal.samples) + " sequences, " + std::to_string(removal.random_orders) + " orders",
      .find = [&](model::Transformer& model) {
        const std::string found = to_json(remove_heads(context, model, *task, removal));
        watch(work_of_removal(plan, heads));
        return found;
      }};
  return follow(context, plan_of(plan, heads, seed), route_of(plan, heads, seed, models), watch,
                entropies_on(context, plan.task), conclusion);
}

// Calls call(n, seed) for every head count, the many seeds of one after those of another.
template <class Call>
void for_all(const ComparisonPlan& plan, const Call& call) {
  for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
    for (std::size_t n = 0; n < std::size(kHeadCounts); ++n) call(n, seed);
  }
}

double mean_of(const std::vector<double>& values) { return spread(values).mean; }

// Between two points, where `share` of the way lies behind.
double between(const Point& before, const Point& after, double share) {
  return mean_of(before.observed) * (1 - share) + mean_of(after.observed) * share;
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

const Contender& TaskStudy::dissected() const {
  return *std::find_if(contenders.begin(), contenders.end(),
                       [](const Contender& contender) { return contender.heads == kDissected; });
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

Common common_of(const std::vector<Contender>& contenders) {
  std::vector<double> steps, losses;
  for (const Contender& contender : contenders) {
    for (const Course& course : contender.courses) {
      std::vector<double> own;
      for (const Point& point : course.points) own.push_back(point.loss);
      steps.push_back(static_cast<double>(course.points.back().step));
      losses.push_back(spread(own).low);
    }
  }
  return {spread(steps).low, spread(losses).high};
}

double entropy_at_step(const Course& course, double step) {
  const auto after = std::find_if(course.points.begin(), course.points.end(),
                                  [&](const Point& point) { return static_cast<double>(point.step) >= step; });
  if (after == course.points.begin()) return mean_of(after->observed);
  const Point& before = *std::prev(after);
  return between(before, *after,
                 (step - static_cast<double>(before.step)) / static_cast<double>(after->step - before.step));
}

double entropy_at_loss(const Course& course, double loss) {
  const auto after =
      std::find_if(course.points.begin(), course.points.end(), [&](const Point& point) { return point.loss <= loss; });
  if (after == course.points.begin()) return mean_of(after->observed);
  const Point& before = *std::prev(after);
  return between(before, *after, (before.loss - loss) / (before.loss - after->loss));
}

double work_of(const ComparisonPlan& plan, const std::filesystem::path& models) {
  double work = work_of_dissections(plan);
  for_all(plan, [&](std::size_t n, std::size_t seed) {
    const std::int64_t heads = kHeadCounts[n];
    const double training = work_of(plan_of(plan, heads, seed), route_of(plan, heads, seed, models));
    if (training > 0) work += plan.expected * training + work_of_removal(plan, heads);
  });
  return work;
}

double work_of_dissections(const ComparisonPlan& plan) {
  return static_cast<double>(plan.dissected) * work_of_dissection(plan);
}

std::vector<Job> compare(const ComparisonPlan& plan, const std::filesystem::path& models, const Watch& watch,
                         TaskStudy& to) {
  to.task = plan.task;
  for (const std::int64_t heads : kHeadCounts) {
    to.contenders.push_back({plan.task, heads, {}, {}});
    to.contenders.back().courses.resize(plan.seeds);
    to.contenders.back().removals.resize(plan.seeds);
  }
  to.anatomies.resize(plan.dissected);
  std::vector<Job> jobs;
  for_all(plan, [&](std::size_t n, std::size_t seed) {
    jobs.push_back([=, &to](Context& context) {
      Contender& contender = to.contenders[n];
      Course& course = contender.courses[seed - 1];
      course = course_of(context, plan, contender.heads, seed, models, watch);
      Removal& removal = contender.removals[seed - 1] = removal_from(course.conclusion);
      if (!is_dissected(plan, contender.heads, seed)) return;
      to.anatomies[seed - 1] =
          dissect(context, course, removal.ranked.removed(),
                  models / name_of_seed(plan.task + "-" + std::to_string(kDissected) + "-pruned", seed));
      watch(work_of_dissection(plan));
    });
  });
  return jobs;
}

std::vector<Job> train_for(const ComparisonPlan& plan, const std::filesystem::path& models, const Watch& watch) {
  std::vector<Job> jobs;
  for_all(plan, [&](std::size_t n, std::size_t seed) {
    jobs.push_back([=](Context& context) { course_of(context, plan, kHeadCounts[n], seed, models, watch); });
  });
  return jobs;
}

}  // namespace polyhead::study
