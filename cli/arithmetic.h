// Parameters and floating-point operations of a transformer, part by part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polyhead::cli {

enum class Norm { none, layer, rms };  // rms: no bias

struct Model {
  std::string name, title;
  std::int64_t width = 512, heads = 8;
  std::int64_t kv_heads = 0;                 // 0: as many as heads
  std::int64_t head_dim = 0;                 // 0: width / heads
  std::int64_t ff = 0;                       // hidden width of the feed-forward network; 0: none
  std::int64_t layers = 1;                   // decoder-only or encoder-only, or the encoder's
  std::int64_t decoder_layers = 0;           // of an encoder-decoder; each also has cross-attention
  std::int64_t vocabulary = 0, context = 0;  // context: learned positions
  std::int64_t tokens = 0;                   // length of a typical sequence
  bool qkv_bias = true, out_bias = true;     // the feed-forward network follows out_bias
  bool causal = false;
  bool gated_ff = false;  // three matrices: down(act(gate x) * up x)
  bool tied = true;       // the output head shares the token embedding
  Norm norm = Norm::none;
  bool final_norm = false;
};

const std::vector<Model>& presets();

enum class Kind { part, sum, total };

// One line of the count. A sum repeats the parts above it.
struct Part {
  Kind kind = Kind::part;
  std::string name, shape;
  std::int64_t times = 0;                // how many the model has
  std::int64_t weights = 0, biases = 0;  // of one
  std::int64_t model_weights = 0, model_biases = 0;
  std::int64_t flops_last = 0;      // for the last token of the sequence, which sees all the others
  std::int64_t flops_sequence = 0;  // for all `tokens` tokens
};

struct Count {
  Model model;  // with all defaults filled in
  std::vector<Part> parts;
  const Part& of(const std::string& name) const&;
  const Part& of(const std::string& name) const&& = delete;  // the part lives in here
};

// Throws Failure(Exit::input) if the numbers do not fit together or the counts overflow.
Count count(Model model);

}  // namespace polyhead::cli
