#include "replicate/result.h"

#include <array>
#include <cstdio>

namespace polyhead::replicate {
namespace {

using io::Json;

constexpr std::array kVerdicts{"comes out", "partly", "not here", "cannot tell"};

std::string number(double value, Unit unit) {
  std::array<char, 64> text{};
  const char* form = unit == Unit::percent ? "%.1f %%" : unit == Unit::nats ? "%.3f nats" : "%.2f";
  std::snprintf(text.data(), text.size(), form, unit == Unit::percent ? 100 * value : value);
  return text.data();
}

Json to_json(const Measure& measure) {
  return {{"what", measure.what},
          {"value", measure.value.mean},
          {"low", measure.value.low},
          {"high", measure.value.high},
          {"unit", static_cast<int>(measure.unit)}};
}

Measure measure_from(const Json& json) {
  const auto at = [&](const char* key) { return json.at(key).get<double>(); };
  return {json.at("what").get<std::string>(),
          {at("value"), at("low"), at("high")},
          static_cast<Unit>(json.at("unit").get<int>())};
}

}  // namespace

std::string words_of(Verdict verdict) { return kVerdicts.at(static_cast<std::size_t>(verdict)); }

std::string text_of(const Measure& measure) {
  const auto& [mean, low, high] = measure.value;
  std::string text = number(mean, measure.unit);
  if (low == high) return text;
  return text + " (" + number(low, measure.unit) + " to " + number(high, measure.unit) + ")";
}

Verdict verdict_on(const Estimate& ours, const Estimate& control, double limit) {
  if (ours.low >= limit && ours.low > control.high) return Verdict::comes_out;
  if (ours.high < limit || ours.high < control.low) return Verdict::not_here;
  return Verdict::cannot_tell;
}

Json to_json(const Result& result) {
  Json further = Json::array(), heads = Json::array();
  for (const Measure& measure : result.further) further.push_back(to_json(measure));
  for (const HeadId& id : result.heads) heads.push_back({id.layer, id.head});
  return {
      {"name", result.name},           {"model", result.model},        {"verdict", static_cast<int>(result.verdict)},
      {"sentence", result.sentence},   {"ours", to_json(result.ours)}, {"control", to_json(result.control)},
      {"further", std::move(further)}, {"heads", std::move(heads)}};
}

Result result_from(const Json& json) {
  Result result{json.at("name").get<std::string>(),
                json.at("model").get<std::string>(),
                static_cast<Verdict>(json.at("verdict").get<int>()),
                json.at("sentence").get<std::string>(),
                measure_from(json.at("ours")),
                measure_from(json.at("control"))};
  for (const Json& one : json.at("further")) result.further.push_back(measure_from(one));
  for (const Json& one : json.at("heads")) {
    result.heads.push_back({one.at(0).get<std::size_t>(), one.at(1).get<std::int64_t>()});
  }
  return result;
}

}  // namespace polyhead::replicate
