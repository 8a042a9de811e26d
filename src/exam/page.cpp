#include "exam/page.h"

#include <algorithm>

#include "report/describe.h"
#include "report/text.h"

namespace polyhead::exam {
namespace {

std::string what_it_does(const model::Config& config) {
  switch (config.kind) {
    case model::Kind::gpt: return "a language model: it predicts the next token";
    case model::Kind::classifier: return "a classifier: it says which class a text is of";
    case model::Kind::encoder: return "an encoder: it turns a text into a vector, its embedding";
  }
  return {};
}

std::string layers_in_words(const model::Config& config) {
  const auto layers = config.layers.size();
  const bool alike = std::all_of(config.layers.begin(), config.layers.end(),
                                 [&](const auto& layer) { return layer.heads == config.layers[0].heads; });
  const std::string some = std::to_string(layers) + (layers == 1 ? " layer" : " layers");
  if (alike) return some + " of " + std::to_string(config.layers[0].heads) + " heads";
  return some + " with " + std::to_string(config.head_count()) + " heads";
}

}  // namespace

std::string in_a_sentence(const model::Transformer& model) {
  return layers_in_words(model.config()) + ", " + report::typeset(std::to_string(model.parameter_count())) +
         " parameters; " + what_it_does(model.config()) + ".";
}

report::Model describe(const Observer& observer, const std::string& name, const Observation& seen) {
  report::Model model{name, seen.note, {}, {}};
  for (std::size_t n = 0; n < seen.roles.size(); ++n) {
    model.heads.push_back(report::describe(seen.roles[n], &seen.survey.heads[n]));
  }
  report::Sample& text = model.samples.emplace_back();
  text.classes = observer.model().config().kind == model::Kind::classifier;
  const auto word = [&](std::int32_t token) { return observer.language().token_text(token); };
  for (const std::int32_t token : seen.tokens) text.tokens.push_back(word(token));
  for (const auto& row : seen.expected) {
    auto& likely = text.predictions.emplace_back();
    for (const auto& [token, probability] : row) {
      likely.emplace_back(text.classes ? "class " + std::to_string(token) : word(token), probability);
    }
  }
  if (!text.classes && !seen.expected.empty()) {
    for (const model::Likely& likely : seen.expected.back()) text.next.push_back(likely.token);
  }
  text.losses = seen.losses;
  text.embedding = seen.embedding;
  return model;
}

void add_weights(report::Model& model, Observer& observer, const std::vector<std::int32_t>& tokens,
                 const GateList& gates, std::size_t layer) {
  const std::int64_t heads = observer.model().config().layers.at(layer).heads;
  if (heads == 0) return;
  const Tensor weights = observer.weights(tokens, gates, layer);
  report::Sample& text = model.samples.back();
  for (std::int64_t head = 0; head < heads; ++head) {
    text.heads.emplace_back(static_cast<int>(layer), static_cast<int>(head));
  }
  text.weights.insert(text.weights.end(), weights.as<float>(), weights.as<float>() + weights.view().count());
}

report::Model read_for_page(Observer& observer, const std::string& name, const std::vector<std::int32_t>& tokens,
                            const GateList& gates, std::size_t first, std::size_t end,
                            const std::function<void(std::size_t)>& note) {
  report::Model model = describe(observer, name, observer.observe(tokens, gates));
  for (std::size_t layer = first; layer < end; ++layer) {
    note(layer);
    add_weights(model, observer, tokens, gates, layer);
  }
  return model;
}

std::string name_of(const std::filesystem::path& model) {
  const std::filesystem::path path = model.lexically_normal();
  return (path.has_filename() ? path.filename() : path.parent_path().filename()).string();
}

}  // namespace polyhead::exam
