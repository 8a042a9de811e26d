#include "study/results_json.h"

#include "io/json.h"
#include "polyhead/version.h"

namespace polyhead::study {
namespace {

using io::Json;

Json points_of(const Course& course) {
  Json json{{"step", Json::array()}, {"loss", Json::array()}, {"accuracy", Json::array()}};
  for (const Point& point : course.points) {
    json["step"].push_back(point.step);
    json["loss"].push_back(point.loss);
    json["accuracy"].push_back(point.accuracy);
  }
  return json;
}

Json of(const std::vector<Contender>& contenders) {
  Json json = Json::array();
  for (const Contender& contender : contenders) {
    Json seeds = Json::array();
    for (std::size_t n = 0; n < contender.courses.size(); ++n) {
      const Course& course = contender.courses[n];
      Json seed{{"seed", course.plan.training.seed}, {"accuracy", course.accuracy()}};
      if (const auto steps = course.steps_to(kSolved)) seed["steps_to_99_percent"] = *steps;
      seed["still_gaining"] = course.still_gaining();
      seed["relative_entropy"] = contender.entropies(n);
      seed["validation"] = points_of(course);
      seeds.push_back(seed);
    }
    const model::Config& config = contender.courses[0].plan.model;
    json.push_back({{"task", contender.task},
                    {"heads", contender.heads},
                    {"head_dim", config.head_dim},
                    {"width", config.width},
                    {"budget", contender.budget()},
                    {"parameters", contender.courses[0].model->parameter_count()},
                    {"seeds", seeds}});
  }
  return json;
}

Json of(const std::vector<heads::HeadRoles>& roles) {
  Json json = Json::array();
  for (const heads::HeadRoles& head : roles) {
    Json scores = Json::array();
    for (const heads::RoleScore& score : head.scores) {
      scores.push_back({{"role", score.role},
                        {"score", score.score},
                        {"threshold", score.threshold},
                        {"control", score.control},
                        {"holds", score.holds()}});
    }
    json.push_back({{"head", to_string(head.id)},
                    {"role", head.role() == nullptr ? Json() : Json(head.role()->role)},
                    {"scores", scores}});
  }
  return json;
}

Json of(const Formation& formation) {
  Json steps = Json::array();
  for (const Point& point : formation.course.points) {
    steps.push_back({{"step", point.step},
                     {"loss", point.loss},
                     {"accuracy", point.accuracy},
                     {"previous_token", formation.previous(point)},
                     {"induction", formation.induction(point)}});
  }
  return {{"name", formation.name},
          {"seed", formation.course.plan.training.seed},
          {"naive_induction_score", formation.naive},
          {"induction_score", formation.ours},
          {"roles", of(formation.roles)},
          {"steps", steps}};
}

Json of(const KnockOut& one) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  return {{"previous_token_heads", one.previous_heads},
          {"induction_heads", one.induction_heads},
          {"nothing_shut", one.nothing},
          {"without_previous_token", number(one.previous)},
          {"without_induction", number(one.induction)},
          {"without_both", number(one.both)},
          {"without_others", number(one.others)}};
}

Json of(const Estimate& estimate) { return {{"mean", estimate.mean}, {"low", estimate.low}, {"high", estimate.high}}; }

Json of(const PruneCurve& curve) {
  Json steps = Json::array();
  for (const PruneStep& step : curve.steps) {
    steps.push_back({{"removed", to_string(step.removed)}, {"loss", step.loss}, {"accuracy", step.accuracy}});
  }
  return {{"loss", curve.loss}, {"accuracy", curve.accuracy}, {"within_budget", curve.within_budget}, {"steps", steps}};
}

Json of(const exam::Facts& side) {
  return {{"heads", side.heads},
          {"parameters", side.parameters},
          {"bytes", side.bytes},
          {"accuracy", side.accuracy},
          {"loss", side.loss},
          {"seconds_of_one", side.seconds_of_one},
          {"seconds_of_16", side.seconds_of_16}};
}

Json of(const Anatomy& anatomy) {
  Json importance = Json::array(), random = Json::array(), relations;
  for (const HeadImportance& head : anatomy.examination.importance) {
    importance.push_back({{"head", to_string(head.id)},
                          {"gradient", head.gradient},
                          {"normalised", head.normalised},
                          {"damage_zero", of(head.zero)},
                          {"damage_mean", of(head.mean)},
                          {"logit", of(head.logit)},
                          {"accuracy_loss", head.accuracy_loss}});
  }
  for (const PruneCurve& curve : anatomy.random) random.push_back(of(curve));
  for (const auto& [name, found] : anatomy.relations) {
    relations[name] = {{"head", to_string(found.head)}, {"accuracy", found.accuracy}, {"best_offset", found.offset}};
  }
  const std::optional<std::size_t> below = anatomy.one_shot_below_random();
  return {{"task", anatomy.course.task->name()},
          {"seed", anatomy.course.plan.training.seed},
          {"validation", points_of(anatomy.course)},
          {"roles", of(anatomy.examination.roles)},
          {"roles_untrained", of(anatomy.examination.untrained)},
          {"importance", importance},
          {"rank_correlation", anatomy.examination.gradient_and_zero},
          {"relations", relations},
          {"pruning", {{"iterative", of(anatomy.iterative)}, {"one_shot", of(anatomy.one_shot)}, {"random", random}}},
          {"one_shot_below_random_from", below ? Json(*below) : Json()},
          {"most_damaging", to_string(anatomy.examination.importance[anatomy.most_damaging()].id)},
          {"whole", of(anatomy.saving.before)},
          {"pruned", of(anatomy.saving.after)}};
}

}  // namespace

std::string to_json(const Results& results) {
  const Formations& formations = results.formations;
  const auto seeds = [](const auto& all) {
    Json json = Json::array();
    for (const auto& one : all) json.push_back(of(one));
    return json;
  };
  const Json json{{"schema", 2},
                  {"version", version()},
                  {"quick", results.quick},
                  {"target", results.target},
                  {"threads", results.threads},
                  {"seconds", results.seconds},
                  {"comparison", {{"copy", of(results.copy)}, {"classify", of(results.classify)}}},
                  {"formation",
                   {{"two_layers", seeds(formations.two_layers)},
                    {"one_layer", seeds(formations.one_layer)},
                    {"fixed_length", seeds(formations.fixed_length)},
                    {"knock_outs", seeds(formations.knock_outs)}}},
                  {"anatomy", seeds(results.anatomies)}};
  return json.dump(1) + "\n";
}

}  // namespace polyhead::study
