// What a transformer looks like.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "polyhead/rotary.h"

namespace polyhead::model {

// A causal decoder that predicts the next token; an encoder that predicts a class; one that returns a row for every
// token.
enum class Kind : std::uint8_t { gpt, classifier, encoder };
enum class Positions : std::uint8_t { learned, sinusoidal, rotary, none };
enum class Norm : std::uint8_t { layer, rms, none };
enum class FeedForward : std::uint8_t { gelu, swiglu, none, erf_gelu, geglu };

// Whether it has two projections, one of which gates the other.
constexpr bool is_gated(FeedForward kind) { return kind == FeedForward::swiglu || kind == FeedForward::geglu; }

// What config.json and the command line call them, in the order of the enumeration.
template <class Choice>
std::vector<std::string> words_of();
template <>
std::vector<std::string> words_of<Kind>();
template <>
std::vector<std::string> words_of<Positions>();
template <>
std::vector<std::string> words_of<Norm>();
template <>
std::vector<std::string> words_of<FeedForward>();

// Heads of one layer. After pruning layers differ; a layer may have none left.
struct LayerHeads {
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t window = 0;  // how many tokens they see, including their own; 0: all
  friend bool operator==(const LayerHeads&, const LayerHeads&) = default;
};

struct Config {
  Kind kind = Kind::gpt;
  std::int64_t vocabulary = 0, context = 0;
  std::int64_t classes = 0;  // of a classifier
  std::int64_t width = 0, head_dim = 0;
  std::vector<LayerHeads> layers;
  std::int64_t hidden = 0;  // width of the feed-forward network
  Positions positions = Positions::learned;
  Norm norm = Norm::layer;
  FeedForward feed_forward = FeedForward::gelu;
  bool bias = true;
  bool tied = false;  // the output uses the embedding's weights
  double dropout = 0;
  double epsilon = 1e-5;       // of the norms
  double rotary_base = 10000;  // of rotary positions
  RotaryScaling rotary_scaling{};
  std::vector<double> rotary_factors{};  // slow each pair down further, one factor per pair; empty: 1
  std::int64_t rotary_dim = 0;           // columns of a head that are rotated; 0: all
  double local_rotary_base =
      0;                       // of layers with a window, whose pairs are not slowed down; 0: they are like the others
  bool qk_norm = false;        // RMSNorm of every head of q and k, before they are rotated
  double attention_scale = 0;  // of q . k; 0: 1/sqrt(head_dim)
  double attention_softcap = 0, logit_softcap = 0;  // c tanh(x / c) of q . k and of the logits; 0: none
  double embedding_scale = 1;                       // of what the first block reads
  // The block is x + attention(norm(x)), then x + feed_forward(norm(x)) ...
  bool parallel = false;        // ... or both of the same x: x + attention(norm(x)) + feed_forward(norm(x)),
  bool post_norm = false;       // or norm(x + attention(x)), then norm(x + feed_forward(x)), with no norm at the end
  bool sandwich = false;        // or x + norm(attention(norm(x))), then x + norm(feed_forward(norm(x)))
  bool embedding_norm = false;  // a norm before the first block

  std::int64_t outputs() const { return kind == Kind::classifier ? classes : kind == Kind::encoder ? 0 : vocabulary; }
  std::int64_t head_count() const;
  friend bool operator==(const Config&, const Config&) = default;
};

// `layers` layers of `heads` heads, width / heads wide, and a feed-forward network four times as wide as the model.
Config make_config(Kind kind, std::int64_t layers, std::int64_t width, std::int64_t heads);

// Throws Error (value) that says what does not fit.
void check(const Config& config);

// config.json, both ways; `where` is the file's name, for messages.
std::string to_json(const Config& config);
Config config_from_json(const std::string& text, const std::string& where);

}  // namespace polyhead::model
