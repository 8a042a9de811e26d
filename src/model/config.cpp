#include "model/config.h"

#include <cmath>
#include <utility>

#include "polyhead/error.h"

namespace polyhead::model {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::value, "config", what); }

void expect_size(const char* name, std::int64_t size, std::int64_t least = 1) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (size >= least && size < kMost) return;
  refuse(std::string(name) + ": expected " + std::to_string(least) + " to " + std::to_string(kMost - 1) + ", found " +
         std::to_string(size));
}

void check_factors(const Config& config) {
  const std::int64_t pairs = (config.rotary_dim == 0 ? config.head_dim : config.rotary_dim) / 2;
  if (config.rotary_factors.empty()) return;
  if (config.positions != Positions::rotary || std::ssize(config.rotary_factors) != pairs) {
    refuse("rotary_factors: expected one for each of " + std::to_string(pairs) + " pairs of rotary positions, found " +
           std::to_string(config.rotary_factors.size()));
  }
  for (const double factor : config.rotary_factors) {
    if (factor >= 1e-30 && factor <= 1e30) continue;  // they are used as f32
    refuse("rotary_factors: expected positive numbers, found " + std::to_string(factor));
  }
}

}  // namespace

std::int64_t Config::head_count() const {
  std::int64_t count = 0;
  for (const LayerHeads& layer : layers) count += layer.heads;
  return count;
}

Config make_config(Kind kind, std::int64_t layers, std::int64_t width, std::int64_t heads) {
  if (layers < 1) refuse("layers: expected 1 or more, found " + std::to_string(layers));
  if (heads < 1 || width % heads != 0) {
    refuse("heads: expected a number that divides the width " + std::to_string(width) + ", found " +
           std::to_string(heads));
  }
  return {.kind = kind,
          .width = width,
          .head_dim = width / heads,
          .layers = std::vector<LayerHeads>(static_cast<std::size_t>(layers), {heads, heads}),
          .hidden = 4 * width};
}

void check(const Config& config) {
  expect_size("vocabulary", config.vocabulary);
  expect_size("context", config.context);
  expect_size("width", config.width);
  expect_size("head_dim", config.head_dim);
  if (config.layers.empty()) refuse("layers: expected 1 or more, found none");
  for (const LayerHeads& layer : config.layers) {
    expect_size("heads", layer.heads, 0);
    expect_size("kv_heads", layer.kv_heads, 0);
    expect_size("window", layer.window, 0);
    expect_size("heads * head_dim", layer.heads * config.head_dim, 0);  // both are below 2^31
    const bool fits = layer.kv_heads == 0 ? layer.heads == 0 : layer.heads > 0 && layer.heads % layer.kv_heads == 0;
    if (fits) continue;
    refuse("kv_heads: expected a number that divides the heads " + std::to_string(layer.heads) + ", found " +
           std::to_string(layer.kv_heads));
  }
  if (config.kind == Kind::classifier) expect_size("classes", config.classes, 2);
  if (config.kind != Kind::gpt && config.tied) refuse("tied: only a language model predicts tokens");
  if (config.parallel + config.post_norm + config.sandwich > 1) {
    refuse("parallel, post_norm and sandwich: expected at most one of them");
  }
  if (config.sandwich && config.norm != Norm::rms) refuse("sandwich: expected RMSNorm");
  if (config.feed_forward != FeedForward::none) expect_size("hidden", config.hidden);
  if (config.positions == Positions::rotary && config.rotary_dim == 0 && config.head_dim % 2 != 0) {
    refuse("head_dim: expected an even number for rotary positions, found " + std::to_string(config.head_dim));
  }
  if (config.rotary_dim < 0 || config.rotary_dim > config.head_dim || config.rotary_dim % 2 != 0) {
    refuse("rotary_dim: expected an even number up to the head_dim " + std::to_string(config.head_dim) + ", found " +
           std::to_string(config.rotary_dim));
  }
  if (!(config.epsilon >= 0 && config.epsilon < 1)) {
    refuse("epsilon: expected 0 or more and less than 1, found " + std::to_string(config.epsilon));
  }
  if (!(config.rotary_base >= 1 && std::isfinite(config.rotary_base))) {
    refuse("rotary_base: expected 1 or more, found " + std::to_string(config.rotary_base));
  }
  if (config.local_rotary_base != 0 && !(config.local_rotary_base >= 1 && std::isfinite(config.local_rotary_base))) {
    refuse("local_rotary_base: expected 1 or more, or 0, found " + std::to_string(config.local_rotary_base));
  }
  for (const auto& [name, value] : {std::pair{"attention_scale", config.attention_scale},
                                    {"attention_softcap", config.attention_softcap},
                                    {"logit_softcap", config.logit_softcap}}) {
    if (value >= 0 && std::isfinite(value)) continue;
    refuse(std::string(name) + ": expected 0 or more, found " + std::to_string(value));
  }
  if (!(config.embedding_scale > 0 && std::isfinite(config.embedding_scale))) {
    refuse("embedding_scale: expected a positive number, found " + std::to_string(config.embedding_scale));
  }
  const RotaryScaling& scaling = config.rotary_scaling;
  if (!(scaling.factor >= 1 && std::isfinite(scaling.factor))) {
    refuse("rotary scaling: expected a factor of 1 or more, found " + std::to_string(scaling.factor));
  }
  if (!(scaling.slow > 0 && scaling.fast > scaling.slow && std::isfinite(scaling.fast))) {
    refuse("rotary scaling: expected 0 < slow < fast, found " + std::to_string(scaling.slow) + " and " +
           std::to_string(scaling.fast));
  }
  expect_size("context of rotary scaling", scaling.context, 0);
  check_factors(config);
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    refuse("dropout: expected 0 or more and less than 1, found " + std::to_string(config.dropout));
  }
}

}  // namespace polyhead::model
