#include "study/anatomy.h"

#include <algorithm>

#include "io/file.h"
#include "study/comparison.h"

namespace polyhead::study {
namespace {

std::map<std::string, RelationFound> relations_of(const heads::Survey& survey) {
  std::map<std::string, RelationFound> relations;
  for (const auto& [name, offset] : survey.chance.relations) {
    RelationFound& found = relations[name] = {0, offset, survey.heads.front().id};
    for (const heads::HeadSurvey& head : survey.heads) {
      const double accuracy = head.relations.at(name).value();
      if (accuracy > found.accuracy) found = {accuracy, offset, head.id};
    }
  }
  return relations;
}

// Removing one head and judging, in estimated seconds of one thread; ranking by gradients costs as much again.
constexpr double kWorkOfRemoval = 0.06;

void take_apart(Context& context, const AnatomyPlan& plan, const Watch& watch, Anatomy& to) {
  model::Transformer& model = *to.course.model;
  const exam::Material material = exam::make_material(*to.course.task);
  to.examination =
      exam::examine(context, model, material,
                    {.seed = 1234, .damage = {{.on_head = [&](std::int64_t) { watch(2 * kWorkOfRemoval); }}}});
  to.relations = relations_of(to.examination.survey);
  const auto curve = [&](PruneOrder order, std::uint64_t seed) {
    return heads::prune(
        context, model, material.ranking, material.judging, {.order = order, .seed = seed, .to_the_end = true},
        [&](const PruneStep&) { watch(order == PruneOrder::iterative ? 2 * kWorkOfRemoval : kWorkOfRemoval); });
  };
  to.iterative = curve(PruneOrder::iterative, 0);
  to.one_shot = curve(PruneOrder::one_shot, 0);
  for (std::size_t n = 0; n < plan.random_orders; ++n) to.random.push_back(curve(PruneOrder::random, n + 1));
  to.pruned = heads::without_heads(model, to.iterative.removed());
}

train::Plan plan_of(const AnatomyPlan& plan, std::uint64_t seed) {
  return make_plan(plan.task, plan.layers, plan.width, plan.heads,
                   {.steps = plan.steps, .batch = plan.batch, .rate = plan.rate, .seed = seed});
}

Route route_of(const AnatomyPlan& plan, std::size_t seed, const std::filesystem::path& models) {
  return {.every = plan.every, .folder = models / name_of_seed(plan.task, seed)};
}

}  // namespace

std::size_t Anatomy::most_damaging() const {
  const auto& all = examination.importance;
  return static_cast<std::size_t>(
      std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.zero.mean < b.zero.mean; }) -
      all.begin());
}

std::optional<std::size_t> Anatomy::one_shot_below_random() const {
  std::optional<std::size_t> from;
  for (std::size_t n = 0; n + 1 < one_shot.steps.size(); ++n) {
    double mean = 0;
    for (const PruneCurve& curve : random) mean += curve.steps[n].accuracy / static_cast<double>(random.size());
    if (one_shot.steps[n].accuracy >= mean)
      from.reset();
    else if (!from)
      from = n + 1;
  }
  return from;
}

std::vector<Job> dissect(const AnatomyPlan& plan, const std::filesystem::path& models, const Watch& watch,
                         std::vector<Anatomy>& to) {
  to.resize(plan.seeds);
  std::vector<Job> jobs;
  for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
    jobs.push_back([=, &to](Context& context) {
      Anatomy& anatomy = to[seed - 1];
      anatomy.course = follow(context, plan_of(plan, seed), route_of(plan, seed, models), watch);
      take_apart(context, plan, watch, anatomy);
      const std::filesystem::path pruned = models / name_of_seed(plan.task + "-pruned", seed);
      io::make_folder(pruned);
      exam::save_cut(*anatomy.pruned, anatomy.course.plan, pruned);
    });
  }
  return jobs;
}

std::vector<Job> train_for(const AnatomyPlan& plan, const std::filesystem::path& models, const Watch& watch) {
  std::vector<Job> jobs;
  for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
    jobs.push_back(
        [=](Context& context) { follow(context, plan_of(plan, seed), route_of(plan, seed, models), watch); });
  }
  return jobs;
}

double work_of_removals(const AnatomyPlan& plan) {
  const auto heads = static_cast<double>(plan.layers * plan.heads * static_cast<std::int64_t>(plan.seeds));
  return kWorkOfRemoval * heads * (2 + 2 + 1 + static_cast<double>(plan.random_orders));
}

double work_of(const AnatomyPlan& plan, const std::filesystem::path& models) {
  double work = work_of_removals(plan);
  for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
    work += work_of(plan_of(plan, seed), route_of(plan, seed, models));
  }
  return work;
}

void measure_saving(Context& context, Anatomy& anatomy) {
  const exam::Material fresh = exam::make_material(*anatomy.course.task, {.seed = 2});
  anatomy.saving = exam::compare(context, *anatomy.course.model, *anatomy.pruned, fresh.reporting);
}

}  // namespace polyhead::study
