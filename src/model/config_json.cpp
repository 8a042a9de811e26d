#include <algorithm>
#include <utility>

#include "io/json.h"
#include "model/config.h"
#include "polyhead/error.h"

namespace polyhead::model {

template <>
std::vector<std::string> words_of<Kind>() {
  return {"polyhead-gpt", "polyhead-classifier", "polyhead-encoder"};
}
template <>
std::vector<std::string> words_of<Positions>() {
  return {"learned", "sinusoidal", "rotary", "none"};
}
template <>
std::vector<std::string> words_of<Norm>() {
  return {"layer", "rms", "none"};
}
template <>
std::vector<std::string> words_of<FeedForward>() {
  return {"gelu", "swiglu", "none", "erf-gelu", "geglu"};
}

namespace {

template <class Choice>
std::string word_of(Choice choice) {
  return words_of<Choice>()[static_cast<std::size_t>(choice)];
}

template <class Choice>
Choice read_choice(const io::Json& object, const std::string& key, const std::string& where) {
  const std::string word = io::read_text(object, key, where);
  std::string all;
  std::size_t place = 0;
  for (const std::string& known : words_of<Choice>()) {
    if (word == known) return static_cast<Choice>(place);
    all += (place++ == 0 ? "" : ", ") + known;
  }
  throw Error(ErrorCode::input, "config",
              where + ": " + key + ": expected one of " + all + ", found " + io::in_quotes(word));
}

constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;

// Settings that are left out if they have their defaults.
constexpr std::pair<const char*, double Config::*> kNumbers[] = {{"epsilon", &Config::epsilon},
                                                                 {"rotary_base", &Config::rotary_base},
                                                                 {"local_rotary_base", &Config::local_rotary_base},
                                                                 {"attention_scale", &Config::attention_scale},
                                                                 {"attention_softcap", &Config::attention_softcap},
                                                                 {"logit_softcap", &Config::logit_softcap},
                                                                 {"embedding_scale", &Config::embedding_scale}};
constexpr std::pair<const char*, bool Config::*> kFlags[] = {{"parallel", &Config::parallel},
                                                             {"post_norm", &Config::post_norm},
                                                             {"sandwich", &Config::sandwich},
                                                             {"embedding_norm", &Config::embedding_norm},
                                                             {"qk_norm", &Config::qk_norm}};

void read_windows(const io::Json& json, const std::string& where, Config& config) {
  const std::vector<std::int64_t> windows = io::read_integers(json, "windows", where, 0, kMost);
  if (windows.size() != config.layers.size()) {
    throw Error(ErrorCode::input, "config",
                where + ": expected windows of " + std::to_string(config.layers.size()) + " layers, found " +
                    std::to_string(windows.size()));
  }
  for (std::size_t layer = 0; layer < windows.size(); ++layer) config.layers[layer].window = windows[layer];
}

RotaryScaling read_scaling(const io::Json& json, const std::string& where) {
  io::expect_known_keys(json, {"factor", "slow", "fast", "context"}, where);
  return {.factor = io::read_number(json, "factor", where, 1, 1e30),
          .slow = io::read_number(json, "slow", where, 0, 1e30),
          .fast = io::read_number(json, "fast", where, 0, 1e30),
          .context = io::read_integer(json, "context", where, 0, kMost)};
}

std::vector<double> read_factors(const io::Json& json, const std::string& where) {
  std::vector<double> factors;
  const std::string words = where + ": rotary_factors: expected a list of numbers";
  if (!json.is_array()) throw Error(ErrorCode::input, "config", words);
  for (const io::Json& factor : json) {
    if (!factor.is_number()) throw Error(ErrorCode::input, "config", words + ", found " + factor.dump());
    factors.push_back(factor.get<double>());
  }
  return factors;
}

}  // namespace

std::string to_json(const Config& config) {
  io::Json json;
  json["model_type"] = word_of(config.kind);
  json["vocabulary"] = config.vocabulary;
  json["context"] = config.context;
  if (config.kind == Kind::classifier) json["classes"] = config.classes;
  json["width"] = config.width;
  json["head_dim"] = config.head_dim;
  for (const LayerHeads& layer : config.layers) {
    json["heads"].push_back(layer.heads);
    json["kv_heads"].push_back(layer.kv_heads);
  }
  json["hidden"] = config.hidden;
  json["positions"] = word_of(config.positions);
  json["norm"] = word_of(config.norm);
  json["feed_forward"] = word_of(config.feed_forward);
  json["bias"] = config.bias;
  json["tied"] = config.tied;
  json["dropout"] = config.dropout;
  // Only if they differ from the defaults, so that configs without them read as before.
  for (const auto& [key, member] : kNumbers) {
    if (config.*member != Config().*member) json[key] = config.*member;
  }
  if (config.rotary_dim != 0) json["rotary_dim"] = config.rotary_dim;
  for (const auto& [key, member] : kFlags) {
    if (config.*member) json[key] = true;
  }
  if (const RotaryScaling& scaling = config.rotary_scaling; scaling != RotaryScaling()) {
    json["rotary_scaling"] = {
        {"factor", scaling.factor}, {"slow", scaling.slow}, {"fast", scaling.fast}, {"context", scaling.context}};
  }
  if (!config.rotary_factors.empty()) json["rotary_factors"] = config.rotary_factors;
  const bool windows =
      std::any_of(config.layers.begin(), config.layers.end(), [](const auto& l) { return l.window > 0; });
  for (const LayerHeads& layer : config.layers) {
    if (windows) json["windows"].push_back(layer.window);
  }
  return json.dump(2) + "\n";
}

Config config_from_json(const std::string& text, const std::string& where) {
  const io::Json json = io::parse_json(text, where);
  std::vector<std::string> keys = {"model_type", "vocabulary",   "context",        "classes",       "width",
                                   "head_dim",   "heads",        "kv_heads",       "hidden",        "positions",
                                   "norm",       "feed_forward", "bias",           "tied",          "dropout",
                                   "rotary_dim", "windows",      "rotary_scaling", "rotary_factors"};
  for (const auto& number : kNumbers) keys.emplace_back(number.first);
  for (const auto& flag : kFlags) keys.emplace_back(flag.first);
  io::expect_known_keys(json, keys, where);
  Config config;
  config.kind = read_choice<Kind>(json, "model_type", where);
  config.vocabulary = io::read_integer(json, "vocabulary", where, 1, kMost);
  config.context = io::read_integer(json, "context", where, 1, kMost);
  if (config.kind == Kind::classifier) config.classes = io::read_integer(json, "classes", where, 2, kMost);
  config.width = io::read_integer(json, "width", where, 1, kMost);
  config.head_dim = io::read_integer(json, "head_dim", where, 1, kMost);
  const std::vector<std::int64_t> heads = io::read_integers(json, "heads", where, 0, kMost);
  const std::vector<std::int64_t> kv_heads = io::read_integers(json, "kv_heads", where, 0, kMost);
  if (heads.size() != kv_heads.size()) {
    throw Error(ErrorCode::input, "config",
                where + ": expected heads and kv_heads of as many layers, found " + std::to_string(heads.size()) +
                    " and " + std::to_string(kv_heads.size()));
  }
  for (std::size_t layer = 0; layer < heads.size(); ++layer) config.layers.push_back({heads[layer], kv_heads[layer]});
  if (json.contains("windows")) read_windows(json, where, config);
  config.hidden = io::read_integer(json, "hidden", where, 0, kMost);
  config.positions = read_choice<Positions>(json, "positions", where);
  config.norm = read_choice<Norm>(json, "norm", where);
  config.feed_forward = read_choice<FeedForward>(json, "feed_forward", where);
  config.bias = io::read_flag(json, "bias", where);
  config.tied = io::read_flag(json, "tied", where);
  config.dropout = io::read_number(json, "dropout", where, 0, 1);
  if (json.contains("rotary_dim")) config.rotary_dim = io::read_integer(json, "rotary_dim", where, 0, kMost);
  for (const auto& [key, member] : kNumbers) {
    if (json.contains(key)) config.*member = io::read_number(json, key, where, 0, 1e30);
  }
  for (const auto& [key, member] : kFlags) {
    if (json.contains(key)) config.*member = io::read_flag(json, key, where);
  }
  if (json.contains("rotary_scaling")) {
    config.rotary_scaling = read_scaling(json["rotary_scaling"], where + ": rotary_scaling");
  }
  if (json.contains("rotary_factors")) config.rotary_factors = read_factors(json["rotary_factors"], where);
  try {
    check(config);
  } catch (const Error& error) {
    throw Error(ErrorCode::input, "config", where + ": " + error.what());
  }
  return config;
}

}  // namespace polyhead::model
