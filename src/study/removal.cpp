#include "study/removal.h"

#include "exam/material.h"
#include "io/json.h"
#include "model/score.h"

namespace polyhead::study {
namespace {

io::Json json_of(const PruneCurve& curve) {
  io::Json steps = io::Json::array();
  for (const PruneStep& step : curve.steps) {
    steps.push_back(
        {{"layer", step.removed.layer}, {"head", step.removed.head}, {"loss", step.loss}, {"accuracy", step.accuracy}});
  }
  return {{"loss", curve.loss}, {"accuracy", curve.accuracy}, {"within_budget", curve.within_budget}, {"steps", steps}};
}

PruneCurve curve_from(const io::Json& json) {
  PruneCurve curve{json.at("loss").get<double>(),
                   json.at("accuracy").get<double>(),
                   {},
                   json.at("within_budget").get<std::size_t>()};
  for (const io::Json& step : json.at("steps")) {
    curve.steps.push_back({{step.at("layer").get<std::size_t>(), step.at("head").get<std::int64_t>()},
                           step.at("loss").get<double>(),
                           step.at("accuracy").get<double>()});
  }
  return curve;
}

}  // namespace

double Removal::mean_random() const {
  double sum = 0;
  for (const PruneCurve& curve : random) sum += static_cast<double>(curve.within_budget);
  return sum / static_cast<double>(random.size());
}

Removal remove_heads(Context& context, const model::Transformer& model, const train::Task& task,
                     const RemovalPlan& plan) {
  const exam::Material material = exam::make_material(task, {.samples = plan.samples});
  const auto curve = [&](PruneOrder order, std::uint64_t seed) {
    return heads::prune(context, model, material.ranking, material.judging,
                        {.order = order, .seed = seed, .to_the_end = plan.to_the_end});
  };
  Removal found{.ranked = curve(PruneOrder::damage, 0), .by_gradient = curve(PruneOrder::iterative, 0), .random = {}};
  for (std::size_t n = 0; n < plan.random_orders; ++n) found.random.push_back(curve(PruneOrder::random, n + 1));
  const auto accuracy_without = [&](const std::vector<HeadId>& gone) {
    model::Gates gates(model.config());
    gates.shut(gone);
    return model::score(context, model, material.reporting, gates.get()).accuracy();
  };
  found.accuracy = accuracy_without({});
  found.ranked_loss = found.accuracy - accuracy_without(found.ranked.removed());
  found.by_gradient_loss = found.accuracy - accuracy_without(found.by_gradient.removed());
  return found;
}

double passes_of(const RemovalPlan& plan, std::int64_t heads) {
  constexpr double kAlone = 1, kGradient = 3;  // passes that ranking a head takes
  const double taken = (plan.to_the_end ? 1.0 : 0.6) * static_cast<double>(heads);
  return kAlone * static_cast<double>(heads) + taken * (1 + kGradient + 1 + static_cast<double>(plan.random_orders));
}

std::string to_json(const Removal& removal) {
  io::Json random = io::Json::array();
  for (const PruneCurve& curve : removal.random) random.push_back(json_of(curve));
  return io::Json{{"ranked", json_of(removal.ranked)},
                  {"by_gradient", json_of(removal.by_gradient)},
                  {"random", random},
                  {"accuracy", removal.accuracy},
                  {"ranked_loss", removal.ranked_loss},
                  {"by_gradient_loss", removal.by_gradient_loss}}
      .dump();
}

Removal removal_from(const std::string& text) {
  const io::Json json = io::parse_json(text, "removal");
  Removal removal{
      .ranked = curve_from(json.at("ranked")), .by_gradient = curve_from(json.at("by_gradient")), .random = {}};
  for (const io::Json& curve : json.at("random")) removal.random.push_back(curve_from(curve));
  removal.accuracy = json.at("accuracy").get<double>();
  removal.ranked_loss = json.at("ranked_loss").get<double>();
  removal.by_gradient_loss = json.at("by_gradient_loss").get<double>();
  return removal;
}

}  // namespace polyhead::study
