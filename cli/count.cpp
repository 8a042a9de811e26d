#include "cli/count.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace polyhead::cli {
namespace {

struct CountOptions {
  std::vector<std::string> names;
  std::optional<std::int64_t> width, heads, kv_heads, head_dim, ff, vocabulary, context, tokens;
  std::string layers;
  std::optional<bool> bias, causal;
  std::string format = "table";
};

constexpr std::int64_t kDefaultTokens = 1024;
constexpr std::int64_t kMostLayers = 100'000;

// "12", or "6+6" for an encoder and a decoder.
void read_layers(const std::string& text, Model& model) {
  const auto read = [](std::string_view part) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool good = error == std::errc{} && end == part.data() + part.size() && number <= kMostLayers;
    return good ? number : 0;
  };
  const std::string_view all = text;
  const std::size_t plus = all.find('+');
  const bool both = plus != all.npos;
  model.layers = read(all.substr(0, plus));
  model.decoder_layers = both ? read(all.substr(plus + 1)) : 0;
  if (model.layers >= 1 && (!both || model.decoder_layers >= 1)) return;
  throw Failure(Exit::usage, fmt::format("--layers: expected a number of layers such as 12, or encoder+decoder such as "
                                         "6+6, found '{}'",
                                         text));
}

void apply(const CountOptions& options, Model& model) {
  const auto set = [](const auto& given, auto& field) {
    if (given) field = *given;
  };
  set(options.width, model.width);
  set(options.heads, model.heads);
  set(options.kv_heads, model.kv_heads);
  set(options.head_dim, model.head_dim);
  set(options.ff, model.ff);
  set(options.vocabulary, model.vocabulary);
  set(options.context, model.context);
  set(options.causal, model.causal);
  set(options.bias, model.qkv_bias);
  set(options.bias, model.out_bias);
  if (!options.layers.empty()) read_layers(options.layers, model);
  if (model.tokens == 0) model.tokens = model.context > 0 ? model.context : kDefaultTokens;
  set(options.tokens, model.tokens);
}

std::vector<Count> chosen(const CountOptions& options) {
  std::vector<Model> models;
  for (const Model& preset : presets()) {
    const bool named = std::find(options.names.begin(), options.names.end(), preset.name) != options.names.end();
    if (named || (options.names.empty() && !options.width)) models.push_back(preset);
  }
  if (models.empty()) {
    if (!options.heads)
      throw Failure(Exit::usage, "--width needs --heads beside it, for example --width 512 --heads 8");
    const bool whole_block = options.ff.value_or(0) > 0;
    models.push_back({.name = "custom",
                      .title = whole_block ? "your configuration" : "one attention layer",
                      .norm = whole_block ? Norm::layer : Norm::none});
  }
  std::vector<Count> counts;
  for (Model& model : models) {
    apply(options, model);
    counts.push_back(count(model));
  }
  return counts;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Model& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace

Command count_command() {
  auto o = std::make_shared<CountOptions>();
  return {
      .name = "count",
      .summary = "parameters and FLOPs of a configuration, itemised",
      .description =
          "Counts the weights, biases and floating-point operations of attention, feed-forward network "
          "and embeddings. Without arguments it lists the known models; one name itemises that model; "
          "options change the models named, or describe one of your own from --width and --heads.",
      .examples = {{"polyhead count", "all known models, one line each"},
                   {"polyhead count gpt2", "GPT-2 small, every matrix and its FLOPs"},
                   {"polyhead count transformer-base --heads 1", "one wide head costs the same as eight"},
                   {"polyhead count gpt2 llama-7b --tokens 512 --format json", "two models, for a script"},
                   {"polyhead count --width 512 --heads 8 --kv-heads 2 --no-bias", "a layer of your own"}},
      .options =
          {{"MODEL", "", fmt::format("known models: {}", fmt::join(preset_names(), ", ")), &o->names, preset_names()},
           {"width", "N", "width of the model, d_model", &o->width},
           {"heads", "N", "attention heads", &o->heads},
           {"kv-heads", "N", "key/value heads, for grouped queries; otherwise as many as heads", &o->kv_heads},
           {"head-dim", "N", "width of a head, d_k; otherwise width / heads", &o->head_dim},
           {"ff", "N", "hidden width of the feed-forward network; 0 for none", &o->ff, {}, 0},
           {"layers", "N", "layers; 6+6 means an encoder and a decoder", &o->layers},
           {"vocab", "N", "vocabulary", &o->vocabulary, {}, 0, 100'000'000},
           {"context", "N", "learned positions", &o->context, {}, 0, 1'000'000'000},
           {"tokens", "N", "length of the sequence that FLOPs are counted for", &o->tokens, {}, 1, 1'000'000'000},
           {"bias", "", "biases in all matrices, or in none", &o->bias},
           {"causal", "", "count only the pairs a causal mask leaves, or all", &o->causal},
           format_option(o->format)},
      .run = [o] {
        const std::vector<Count> counts = chosen(*o);
        print(counts.size() == 1 ? itemised(counts[0]) : overview(counts), o->format);
      }};
}

}  // namespace polyhead::cli
