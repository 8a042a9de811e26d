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
  const Common common = common_of(contenders);
  Json json = Json::array();
  for (const Contender& contender : contenders) {
    Json seeds = Json::array();
    for (std::size_t n = 0; n < contender.courses.size(); ++n) {
      const Course& course = contender.courses[n];
      Json seed{{"seed", course.plan.training.seed}, {"accuracy", course.accuracy()}};
      if (const auto steps = course.steps_to(kSolved)) seed["steps_to_99_percent"] = *steps;
      seed["still_gaining"] = course.still_gaining();
      seed["relative_entropy"] = contender.entropies(n);
      seed["relative_entropy_at_equal_loss"] = entropy_at_loss(course, common.loss);
      seed["relative_entropy_at_equal_steps"] = entropy_at_step(course, common.step);
      seed["validation"] = points_of(course);
      seed["removal"] = io::parse_json(to_json(contender.removals[n]), "removal");
      seeds.push_back(seed);
    }
    const model::Config& config = contender.courses[0].plan.model;
    json.push_back({{"task", contender.task},
                    {"heads", contender.heads},
                    {"head_dim", config.head_dim},
                    {"width", config.width},
                    {"budget", contender.budget()},
                    {"parameters", model::parameter_count(config)},
                    {"all_heads", contender.all_heads()},
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

Json of(const Anatomy& anatomy, const Course& course) {
  Json importance = Json::array(), relations = Json::object();
  for (const HeadImportance& head : anatomy.examination.importance) {
    importance.push_back({{"head", to_string(head.id)},
                          {"gradient", head.gradient},
                          {"normalised", head.normalised},
                          {"damage_zero", of(head.zero)},
                          {"damage_mean", of(head.mean)},
                          {"logit", of(head.logit)},
                          {"accuracy_loss", head.accuracy_loss}});
  }
  for (const auto& [name, found] : anatomy.relations) {
    relations[name] = {{"head", to_string(found.head)}, {"accuracy", found.accuracy}, {"best_offset", found.offset}};
  }
  return {{"seed", course.plan.training.seed},
          {"roles", of(anatomy.examination.roles)},
          {"roles_untrained", of(anatomy.examination.untrained)},
          {"importance", importance},
          {"rank_correlation", anatomy.examination.gradient_and_zero},
          {"relations", relations},
          {"most_damaging", to_string(anatomy.examination.importance[anatomy.most_damaging()].id)},
          {"parameters", anatomy.parameters},
          {"pruned_parameters", anatomy.pruned_parameters}};
}

Json of(const TaskStudy& task) {
  const Common common = common_of(task.contenders);
  Json anatomies = Json::array();
  for (std::size_t n = 0; n < task.anatomies.size(); ++n) {
    anatomies.push_back(of(task.anatomies[n], task.dissected().courses[n]));
  }
  return {{"equal_loss", common.loss},
          {"equal_steps", common.step},
          {"contenders", of(task.contenders)},
          {"anatomies", anatomies}};
}

}  // namespace

std::string to_json(const Results& results) {
  const Formations& formations = results.formations;
  const auto seeds = [](const auto& all) {
    Json json = Json::array();
    for (const auto& one : all) json.push_back(of(one));
    return json;
  };
  Json tasks = Json::object();
  for (const TaskStudy& task : results.tasks) tasks[task.task] = of(task);
  const Json json{{"schema", 3},
                  {"version", version()},
                  {"quick", results.quick},
                  {"target", results.target},
                  {"threads", results.threads},
                  {"seconds", results.seconds},
                  {"tasks", tasks},
                  {"formation",
                   {{"two_layers", seeds(formations.two_layers)},
                    {"one_layer", seeds(formations.one_layer)},
                    {"fixed_length", seeds(formations.fixed_length)},
                    {"knock_outs", seeds(formations.knock_outs)}}}};
  return json.dump(1) + "\n";
}

}  // namespace polyhead::study
