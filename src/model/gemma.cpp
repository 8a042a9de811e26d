// Gemma 2 and 3: Llama with norms before and after attention and feed-forward, a GeGLU, windows in most layers and
// scaled embeddings. Gemma 2 caps scores and logits; Gemma 3 has a norm for every head of q and k, and separate rotary
// positions for the layers with windows. Norms are stored as w - 1, except in GGUF.
#include <cmath>

#include "model/families.h"
#include "model/family_fields.h"
#include "model/llama.h"

namespace polyhead::model {
namespace {

// What the two have in common. Every `pattern`-th layer sees all tokens, unless the file lists the layers.
Config read_gemma(const io::Json& json, const std::string& where, const std::set<std::string>& tensors,
                  std::int64_t pattern) {
  const Fields fields{json, where};
  fields.expect_text(fields.has("hidden_activation") ? "hidden_activation" : "hidden_act", {"gelu_pytorch_tanh"},
                     "gelu_pytorch_tanh");
  Config config = read_llama_sizes(json, where, tensors);
  config.head_dim = fields.size_or("head_dim", 256);
  config.bias = fields.flag_or("attention_bias", false);
  config.tied = fields.flag_or("tie_word_embeddings", true);
  config.feed_forward = FeedForward::geglu;
  config.sandwich = true;
  config.attention_scale = 1 / std::sqrt(fields.positive_or("query_pre_attn_scalar", 256));
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  const std::int64_t window = fields.size_or_none("sliding_window", 4096);
  const std::int64_t every = fields.size_or("sliding_window_pattern", pattern);
  read_windows(json, where, window, config, [&](std::int64_t layer) { return (layer + 1) % every != 0; });
  return config;
}

Config read_gemma2(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Fields{json, where}.expect_flag("use_bidirectional_attention", false, false);
  Config config = read_gemma(json, where, tensors, 2);
  config.attention_softcap = Fields{json, where}.number_or_none("attn_logit_softcapping", 50);
  config.logit_softcap = Fields{json, where}.number_or_none("final_logit_softcapping", 30);
  read_rotary(json, where, 1, config);
  return config;
}

// Newer files have two "rope_parameters", one for each kind of layer.
void read_gemma3_rotary(const io::Json& json, const std::string& where, Config& config) {
  const Fields fields{json, where};
  config.rotary_base = 1e6;
  config.local_rotary_base = fields.number_or("rope_local_base_freq", 10000);
  const bool apart = fields.has("rope_parameters") && json["rope_parameters"].is_object() &&
                     json["rope_parameters"].contains("full_attention");
  if (!apart) return read_rotary(json, where, 1, config);
  const auto wrapped = [&](const char* kind) {
    const Fields both{json["rope_parameters"], where + ": rope_parameters"};
    return both.has(kind) ? io::Json{{"rope_parameters", both.json[kind]}} : io::Json::object();
  };
  read_rotary(wrapped("full_attention"), where, 1, config);
  Config local;
  local.rotary_base = config.local_rotary_base;
  local.head_dim = config.head_dim;
  read_rotary(wrapped("sliding_attention"), where, 1, local);
  if (local.rotary_scaling != RotaryScaling() || local.rotary_dim != config.rotary_dim) {
    throw Error(ErrorCode::input, "load",
                where + ": rope_parameters: sliding_attention: polyhead runs rotary positions without scaling only");
  }
  config.local_rotary_base = local.rotary_base;
}

Config read_gemma3(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Fields{json, where}.expect_flag("use_bidirectional_attention", false, false);
  Config config = read_gemma(json, where, tensors, 6);
  config.attention_softcap = Fields{json, where}.number_or_none("attn_logit_softcapping", 0);
  config.logit_softcap = Fields{json, where}.number_or_none("final_logit_softcapping", 0);
  config.qk_norm = true;
  read_gemma3_rotary(json, where, config);
  return config;
}

// The rest is not in the file: llama.cpp derives it from the architecture.
Config read_gemma_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors,
                       const std::string& name, std::int64_t pattern) {
  const Fields fields{json, where};
  Config config = read_llama_like_gguf(json, where, tensors, name);
  config.feed_forward = FeedForward::geglu;
  config.sandwich = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  const std::int64_t window = fields.size_or(name + ".attention.sliding_window", 0);
  pattern = fields.size_or(name + ".attention.sliding_window_pattern", pattern);
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    if ((static_cast<std::int64_t>(layer) + 1) % pattern != 0) config.layers[layer].window = window;
  }
  return config;
}

// The largest model of each generation scales by width / heads, not head_dim; as in llama.cpp, its layers identify it.
void scale_by_width(std::size_t layers_of_largest, Config& config) {
  if (config.layers.size() != layers_of_largest) return;
  const std::int64_t heads = config.layers[0].heads;
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.width) / static_cast<double>(heads));
}

Config read_gemma2_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  Config config = read_gemma_gguf(json, where, tensors, "gemma2", 2);
  config.attention_softcap = fields.number_or("gemma2.attn_logit_softcapping", 50);
  config.logit_softcap = fields.number_or("gemma2.final_logit_softcapping", 30);
  scale_by_width(46, config);
  return config;
}

Config read_gemma3_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  Config config = read_gemma_gguf(json, where, tensors, "gemma3", 6);
  config.qk_norm = true;
  config.logit_softcap = fields.number_or("gemma3.final_logit_softcapping", 0);
  config.local_rotary_base = fields.number_or("gemma3.rope.freq_base_swa", 10000);
  scale_by_width(62, config);
  return config;
}

// Llama's norms become Gemma's, four per layer.
Family with_norms(Family family, const std::string& layer, const std::vector<std::string>& norms, bool plus_one) {
  const auto norm = [&](const std::string& name) {
    return std::vector<Source>{{.name = layer + name + ".weight", .plus_one = plus_one}};
  };
  family.parameters["blocks.{}.attention_norm.weight"] = norm(norms[0]);
  family.parameters["blocks.{}.attention_out_norm.weight"] = norm(norms[1]);
  family.parameters["blocks.{}.feed_forward_norm.weight"] = norm(norms[2]);
  family.parameters["blocks.{}.feed_forward_out_norm.weight"] = norm(norms[3]);
  family.parameters["final_norm.weight"][0].plus_one = plus_one;
  return family;
}

}  // namespace

Family gemma2_family() {
  Family family = with_norms(
      llama_family(), "layers.{}.",
      {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}, true);
  family.name = "gemma2";
  family.read_config = read_gemma2;
  return family;
}

Family gemma3_family() {
  Family family =
      with_head_norms(gemma2_family(), "layers.{}.self_attn.q_norm.weight", "layers.{}.self_attn.k_norm.weight", true);
  family.name = "gemma3_text";
  family.read_config = read_gemma3;
  return family;
}

Family gemma2_gguf_family() {
  return with_norms(half_gguf_family("gemma2", read_gemma2_gguf), "blk.{}.",
                    {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"}, false);
}

Family gemma3_gguf_family() {
  Family family =
      with_head_norms(gemma2_gguf_family(), "blk.{}.attn_q_norm.weight", "blk.{}.attn_k_norm.weight", false);
  family.name = "gemma3";
  family.read_config = read_gemma3_gguf;
  return family;
}

}  // namespace polyhead::model
