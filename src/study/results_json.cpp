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
      if (const auto steps = course.steps_to(kSolved)) seed["steps_to_95_percent"] = *steps;
      seed["relative_entropy"] = contender.entropies[n];
      seed["validation"] = points_of(course);
      seeds.push_back(seed);
    }
    const model::Config& config = contender.courses[0].plan.model;
    json.push_back({{"task", contender.task},
                    {"heads", contender.heads},
                    {"head_dim", config.head_dim},
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
  for (const Snapshot& snapshot : formation.snapshots) {
    steps.push_back({{"step", snapshot.point.step},
                     {"loss", snapshot.point.loss},
                     {"accuracy", snapshot.point.accuracy},
                     {"previous_token", snapshot.previous},
                     {"induction", snapshot.induction}});
  }
  return {{"name", formation.name},
          {"naive_induction_score", formation.naive},
          {"induction_score", formation.ours},
          {"roles", of(formation.roles)},
          {"steps", steps}};
}

Json of(const heads::Estimate& estimate) {
  return {{"mean", estimate.mean}, {"low", estimate.low}, {"high", estimate.high}};
}

Json of(const heads::PruneCurve& curve) {
  Json steps = Json::array();
  for (const heads::PruneStep& step : curve.steps) {
    steps.push_back({{"removed", to_string(step.removed)}, {"loss", step.loss}, {"accuracy", step.accuracy}});
  }
  return {{"loss", curve.loss}, {"accuracy", curve.accuracy}, {"within_budget", curve.within_budget}, {"steps", steps}};
}

Json of(const Facts& side) {
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
  for (const heads::Importance& head : anatomy.examination.importance) {
    importance.push_back({{"head", to_string(head.id)},
                          {"gradient", head.gradient},
                          {"normalised", head.normalised},
                          {"damage_zero", of(head.zero)},
                          {"damage_mean", of(head.mean)},
                          {"accuracy_loss", head.accuracy_loss}});
  }
  for (const heads::PruneCurve& curve : anatomy.random) random.push_back(of(curve));
  for (const auto& [name, found] : anatomy.relations) {
    relations[name] = {{"head", to_string(found.head)}, {"accuracy", found.accuracy}, {"best_offset", found.offset}};
  }
  return {{"task", anatomy.course.task->name()},
          {"validation", points_of(anatomy.course)},
          {"roles", of(anatomy.examination.roles)},
          {"roles_untrained", of(anatomy.examination.untrained)},
          {"importance", importance},
          {"rank_correlation", anatomy.examination.gradient_and_zero},
          {"relations", relations},
          {"pruning", {{"iterative", of(anatomy.iterative)}, {"one_shot", of(anatomy.one_shot)}, {"random", random}}},
          {"whole", of(anatomy.saving.before)},
          {"pruned", of(anatomy.saving.after)}};
}

}  // namespace

std::string to_json(const Results& results) {
  const Formations& formations = results.formations;
  Json knock_outs = Json::array();
  for (const KnockOut& one : formations.knock_outs) {
    knock_outs.push_back({{"shut", one.what}, {"accuracy", one.accuracy}});
  }
  const Json json{{"schema", 1},
                  {"version", version()},
                  {"quick", results.quick},
                  {"threads", results.threads},
                  {"seconds", results.seconds},
                  {"comparison", {{"copy", of(results.copy)}, {"classify", of(results.classify)}}},
                  {"formation",
                   {{"two_layers", of(formations.two_layers)},
                    {"one_layer", of(formations.one_layer)},
                    {"fixed_length", of(formations.fixed_length)},
                    {"knock_outs", knock_outs}}},
                  {"anatomy", of(results.anatomy)}};
  return json.dump(1) + "\n";
}

}  // namespace polyhead::study
