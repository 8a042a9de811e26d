#include "study/anatomy.h"

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

void take_apart(Context& context, const AnatomyPlan& plan, const Watch& check, Anatomy& to) {
  model::Transformer& model = *to.course.model;
  const Material material = make_material(*to.course.task);
  to.examination = examine(context, model, material, 1234);
  to.relations = relations_of(to.examination.survey);
  const auto curve = [&](heads::Order order, std::uint64_t seed) {
    return heads::prune(context, model, material.ranking, material.judging,
                        {.order = order, .seed = seed, .to_the_end = true}, [&](const heads::PruneStep&) { check(); });
  };
  to.iterative = curve(heads::Order::iterative, 0);
  to.one_shot = curve(heads::Order::one_shot, 0);
  for (std::size_t n = 0; n < plan.random_orders; ++n) to.random.push_back(curve(heads::Order::random, n + 1));
  to.pruned = heads::without_heads(model, to.iterative.removed());
}

}  // namespace

Job dissect(const AnatomyPlan& plan, const Watch& watch, const Watch& check, Anatomy& to) {
  return [=, &to](Context& context) {
    const train::TrainOptions training{.steps = plan.steps, .batch = plan.batch, .rate = plan.rate};
    to.course = follow(context, make_plan(plan.task, plan.layers, plan.width, plan.heads, training), plan.every, watch);
    take_apart(context, plan, check, to);
  };
}

void measure_saving(Context& context, Anatomy& anatomy) {
  const Material fresh = make_material(*anatomy.course.task, {.seed = 2});
  anatomy.saving = compare(context, *anatomy.course.model, *anatomy.pruned, fresh.reporting);
}

}  // namespace polyhead::study
