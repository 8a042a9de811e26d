// The page's data. Every text in it but the examples to type goes through visible(), so the page need not care about
// hidden characters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "polyhead/error.h"
#include "report/base64.h"
#include "report/deflate.h"
#include "report/page.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kSchema = 1;

void expect(bool holds, const std::string& message) {
  if (!holds) throw Error(ErrorCode::shape, "page", message);
}

Json texts(const std::vector<std::string>& values, std::string (*shown)(std::string_view) = visible) {
  Json list = Json::array();
  for (const std::string& value : values) list.push_back(shown(value));
  return list;
}

Json numbers(const std::vector<std::pair<std::string, double>>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[visible(name)] = value;
  return object;
}

void put(Json& object, const char* name, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) object[name] = *value;
}

void put(Json& object, const char* name, const std::string& text) {
  if (!text.empty()) object[name] = visible(text);
}

Json json_of(const Head& head) {
  Json object{{"layer", head.layer}, {"head", head.head}};
  put(object, "role", head.role);
  put(object, "score", head.score);
  if (head.borderline) object["borderline"] = true;
  if (!head.roles.empty()) object["roles"] = numbers(head.roles);
  if (!head.statistics.empty()) object["statistics"] = numbers(head.statistics);
  put(object, "importance", head.importance);
  put(object, "damage", head.damage);
  put(object, "damage_low", head.damage_low);
  put(object, "damage_high", head.damage_high);
  object["kept"] = head.kept;
  if (head.origin) object["origin"] = {head.origin->first, head.origin->second};
  return object;
}

// "predictions": [[["token", 0.5], …], …]
Json predictions_of(const Sample& sample) {
  Json rows = Json::array();
  for (const auto& row : sample.predictions) {
    Json list = Json::array();
    for (const auto& [token, probability] : row) list.push_back({visible_token(token), probability});
    rows.push_back(std::move(list));
  }
  return rows;
}

// Head by head, so that a page unpacks only those that are looked at.
Json weights_of(const Sample& sample, std::size_t size) {
  Json heads = Json::array();
  for (std::size_t head = 0; head < sample.heads.size(); ++head) {
    heads.push_back(base64(deflated(quantised(std::span(sample.weights).subspan(head * size, size)))));
  }
  return heads;
}

Json json_of(const Sample& sample) {
  const std::size_t queries = sample.tokens.size();
  const std::size_t keys = sample.key_tokens.empty() ? queries : sample.key_tokens.size();
  const std::size_t expected = sample.heads.size() * queries * keys;
  expect(sample.weights.size() == expected,
         fmt::format("sample '{}': {} heads of {} queries by {} keys take {} weights, found {}", sample.name,
                     sample.heads.size(), queries, keys, expected, sample.weights.size()));
  Json object = Json::object();
  put(object, "name", sample.name);
  object["tokens"] = texts(sample.tokens, visible_token);
  if (!sample.key_tokens.empty()) object["key_tokens"] = texts(sample.key_tokens, visible_token);
  object["heads"] = Json::array();
  for (const auto& [layer, head] : sample.heads) object["heads"].push_back({layer, head});
  object["weights"] = weights_of(sample, queries * keys);
  if (!sample.predictions.empty()) object["predictions"] = predictions_of(sample);
  if (!sample.next.empty()) object["next"] = sample.next;
  if (sample.classes) object["classes"] = true;
  if (!sample.losses.empty()) object["losses"] = sample.losses;
  if (!sample.embedding.empty()) object["embedding"] = sample.embedding;
  return object;
}

Json json_of(const Model& model) {
  Json object{{"name", visible(model.name)}};
  put(object, "note", model.note);
  object["heads"] = Json::array();
  for (const Head& head : model.heads) object["heads"].push_back(json_of(head));
  object["samples"] = Json::array();
  for (const Sample& sample : model.samples) object["samples"].push_back(json_of(sample));
  return object;
}

Json json_of(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return *whole;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return visible(*text);
  return nullptr;
}

Json json_of(const Table& table) {
  Json object{{"id", visible(table.id)}, {"title", visible(table.title)}};
  put(object, "caption", table.caption);
  object["columns"] = texts(table.columns);
  object["rows"] = Json::array();
  for (const auto& row : table.rows) {
    expect(row.size() == table.columns.size(),
           fmt::format("table '{}': expected {} cells in a row, found {}", table.id, table.columns.size(), row.size()));
    Json cells = Json::array();
    for (const Cell& cell : row) cells.push_back(json_of(cell));
    object["rows"].push_back(cells);
  }
  return object;
}

Json json_of(const Finding& finding) {
  Json object{{"text", visible(finding.text)}};
  put(object, "figure", finding.figure);
  return object;
}

Json json_of(const Figure& figure) {
  Json object{{"id", visible(figure.id)}, {"title", visible(figure.title)}};
  put(object, "caption", figure.caption);
  return object;
}

Json json_of(const Live& live) {
  Json object{{"model", visible(live.model)}, {"hint", visible(live.hint)}, {"most_tokens", live.most_tokens}};
  object["examples"] = Json::array();
  for (const auto& [name, text, shows] : live.examples) {
    object["examples"].push_back({{"name", visible(name)}, {"text", text}, {"shows", visible(shows)}});
  }
  put(object, "compared", live.compared);
  return object;
}

}  // namespace

std::vector<std::uint8_t> quantised(std::span<const float> weights) {
  std::vector<std::uint8_t> bytes(weights.size());
  std::transform(weights.begin(), weights.end(), bytes.begin(), [](float weight) {
    return weight > 0 ? static_cast<std::uint8_t>(std::lround(255 * std::sqrt(std::min(weight, 1.0F))))
                      : std::uint8_t{0};
  });
  return bytes;
}

std::string json(const Model& model) { return json_of(model).dump(); }

std::string json(const Page& page) {
  Json data{{"schema", kSchema}, {"title", visible(page.title)}};
  put(data, "lead", page.lead);
  data["about"] = Json::object();
  for (const auto& [name, value] : page.about) data["about"][visible(name)] = visible(value);
  const auto list = [&](const char* name, const auto& items) {
    data[name] = Json::array();
    for (const auto& item : items) data[name].push_back(json_of(item));
  };
  list("findings", page.findings);
  list("figures", page.figures);
  list("tables", page.tables);
  list("models", page.models);
  put(data, "view", page.view);
  if (page.live) data["live"] = json_of(*page.live);
  return data.dump();
}

}  // namespace polyhead::report
