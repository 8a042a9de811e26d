// The roles that a model's heads get from another text, another length or another seed, and those of models that should
// have none. bench/roles.py asks for them.
#include "heads/roles.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/draws.h"
#include "core/numbers.h"
#include "heads/standard_probe.h"
#include "io/file.h"
#include "model/checkpoint.h"

namespace polyhead {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kUsage = "expected MODEL TEXT|standard LENGTH SEQUENCES SEED whole|untrained|weights|layers";

// A copy with f32 weights, whose parameters can be moved about.
std::unique_ptr<model::Transformer> copy_of(const model::Transformer& model) {
  auto copy = std::make_unique<model::Transformer>(model.config());
  const std::vector<const autograd::Parameter*> from = model.parameters();
  const std::vector<autograd::Parameter*> to = copy->parameters();
  for (std::size_t n = 0; n < to.size(); ++n) {
    const Tensor& value = from[n]->value;
    to[n]->value = value.dtype() == DType::blocks ? widened_blocks(value) : widened(copied_to_host(value));
  }
  return copy;
}

// The numbers of every matrix in another order.
void shuffle_weights(model::Transformer& model, std::uint64_t seed) {
  std::uint32_t number = 0;
  for (autograd::Parameter* parameter : model.parameters()) {
    const std::int64_t count = count_of(parameter->value.shape());
    float* numbers = parameter->value.as<float>();
    Draws draws(seed, ++number, 0, 0);
    for (std::int64_t n = 0; parameter->value.view().rank() > 1 && n + 1 < count; ++n) {
      std::swap(numbers[n], numbers[n + draws.below(count - n)]);
    }
  }
}

// "blocks.3.norm" -> {3, "norm"}; no layer: {-1, name}.
std::pair<std::int64_t, std::string> place_of(const std::string& name) {
  const std::string begin = "blocks.";
  if (!name.starts_with(begin)) return {-1, name};
  const std::size_t dot = name.find('.', begin.size());
  return {std::stoll(name.substr(begin.size(), dot - begin.size())), name.substr(dot)};
}

// Every layer in the place of another, none in its own: a first layer that stays does what it did.
void shuffle_layers(model::Transformer& model, std::uint64_t seed) {
  const std::vector<std::size_t> order = heads::other_orders(model.config().layers.size(), 1, 1000 + seed).at(0);
  std::map<std::pair<std::int64_t, std::string>, Tensor> taken;
  for (autograd::Parameter* parameter : model.parameters()) {
    taken.emplace(place_of(parameter->name), std::move(parameter->value));
  }
  for (autograd::Parameter* parameter : model.parameters()) {
    auto [layer, rest] = place_of(parameter->name);
    if (layer >= 0) layer = static_cast<std::int64_t>(order[static_cast<std::size_t>(layer)]);
    parameter->value = std::move(taken.at({layer, rest}));
  }
}

std::unique_ptr<model::Transformer> model_of(const std::string& kind, const std::string& path, Context& context,
                                             std::uint64_t seed) {
  std::unique_ptr<model::Transformer> model = model::load(path, context);
  if (kind == "whole") return model;
  if (kind == "untrained") return std::make_unique<model::Transformer>(model->config(), seed);
  model = copy_of(*model);
  if (kind == "weights") shuffle_weights(*model, seed);
  if (kind == "layers") shuffle_layers(*model, seed);
  return model;
}

void print_roles(const std::vector<std::string>& words) {
  Context context;
  const std::string &path = words[0], &text = words[1], &kind = words[5];
  const std::int64_t length = std::stoll(words[2]), sequences = std::stoll(words[3]);
  const std::uint64_t seed = std::stoull(words[4]);
  const std::unique_ptr<model::Transformer> model = model_of(kind, path, context, seed);
  const text::Tokenizer tokenizer = text::load_tokenizer(path);
  heads::Probes probes;
  if (text == "standard") {
    probes = heads::standard_probes(tokenizer, model->config());
  } else {
    constexpr std::size_t kMost = 1 << 24;
    const heads::StandardProbe options{
        .length = length, .windows = sequences, .repeats = sequences, .repeat_lengths = {length}, .seed = seed};
    probes = heads::standard_probes(tokenizer, model->config(), {{"text", io::read_file(text, kMost)}}, options);
  }
  const auto [plain, roles] = heads::survey_roles(context, *model, probes);
  Json list = Json::array();
  for (const heads::HeadRoles& head : roles) {
    Json scores = Json::object();
    for (const heads::RoleScore& score : head.scores) {
      scores[score.role] = {{"score", score.score},
                            {"low", score.interval ? score.interval->low : score.score},
                            {"high", score.interval ? score.interval->high : score.score},
                            {"limit", score.limit()},
                            {"by_chance", score.by_chance},
                            {"number_only", score.number_only}};
    }
    list.push_back({{"head", to_string(head.id)},
                    {"role", head.role() == nullptr ? "" : head.role()->role},
                    {"scores", std::move(scores)}});
  }
  const std::size_t of_text = plain.heads.empty() ? 0 : plain.heads[0].sequences.size();
  std::puts(Json{{"sequences", of_text}, {"heads", list}}.dump().c_str());
}

}  // namespace
}  // namespace polyhead

int main(int count, char** words) {
  if (count != 7) {
    std::fprintf(stderr, "%s\n", polyhead::kUsage);
    return 2;
  }
  try {
    polyhead::print_roles({words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
