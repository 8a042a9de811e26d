// GPT-NeoX and Pythia: attention and feed-forward read the same x, and some columns of a head have rotary positions.
#include "model/families.h"
#include "model/family_fields.h"
#include "model/llama.h"

namespace polyhead::model {
namespace {

Config read_gpt_neox(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  Config config = make_config(Kind::gpt, fields.layers("num_hidden_layers", tensors), fields.size("hidden_size"),
                              fields.size("num_attention_heads"));
  config.vocabulary = fields.size("vocab_size");
  config.context = fields.size("max_position_embeddings");
  config.hidden = fields.size("intermediate_size");
  config.feed_forward = read_gelu(fields, "hidden_act");
  config.epsilon = fields.number_or("layer_norm_eps", 1e-5);
  config.positions = Positions::rotary;
  config.rotary_base = fields.number_or("rotary_emb_base", config.rotary_base);
  read_rotary(json, where, fields.share_or("rotary_pct", 0.25), config);
  config.parallel = fields.flag_or("use_parallel_residual", true);
  config.tied = fields.flag_or("tie_word_embeddings", false);
  return config;
}

// GGUF does not name the GELU; all trained models use the exact one.
Config read_gpt_neox_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  Config config = read_gguf_sizes(fields, "gptneox", Kind::gpt, tensors);
  config.feed_forward = FeedForward::erf_gelu;
  config.positions = Positions::rotary;
  config.rotary_base = fields.number_or("gptneox.rope.freq_base", config.rotary_base);
  config.rotary_dim = fields.size_or("gptneox.rope.dimension_count", 0);
  read_gguf_scaling(fields, "gptneox", config);
  config.parallel = fields.flag_or("gptneox.use_parallel_residual", true);
  config.tied = !tensors.contains("output.weight");
  return config;
}

void settle_gpt_neox(const io::Json& json, const std::string& where, const std::set<std::string>&, Family& family) {
  if (!Fields{json, where}.flag_or("attention_bias", true)) drop_biases(family, "attention");
}

}  // namespace

Family gpt_neox_family() {
  const Source qkv{.name = "layers.{}.attention.query_key_value.weight", .by_head = true};
  const Source biases{.name = "layers.{}.attention.query_key_value.bias", .by_head = true};
  return {.name = "gpt_neox",
          .prefix = "gpt_neox.",
          .read_config = read_gpt_neox,
          .parameters = {{"tokens.weight", {{"embed_in.weight"}}},
                         {"blocks.{}.attention_norm.weight", {{"layers.{}.input_layernorm.weight"}}},
                         {"blocks.{}.attention_norm.bias", {{"layers.{}.input_layernorm.bias"}}},
                         {"blocks.{}.attention.in_proj_weight", {qkv}},
                         {"blocks.{}.attention.in_proj_bias", {biases}},
                         {"blocks.{}.attention.out_proj.weight", {{"layers.{}.attention.dense.weight"}}},
                         {"blocks.{}.attention.out_proj.bias", {{"layers.{}.attention.dense.bias"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{"layers.{}.post_attention_layernorm.weight"}}},
                         {"blocks.{}.feed_forward_norm.bias", {{"layers.{}.post_attention_layernorm.bias"}}},
                         {"blocks.{}.feed_forward.up.weight", {{"layers.{}.mlp.dense_h_to_4h.weight"}}},
                         {"blocks.{}.feed_forward.up.bias", {{"layers.{}.mlp.dense_h_to_4h.bias"}}},
                         {"blocks.{}.feed_forward.down.weight", {{"layers.{}.mlp.dense_4h_to_h.weight"}}},
                         {"blocks.{}.feed_forward.down.bias", {{"layers.{}.mlp.dense_4h_to_h.bias"}}},
                         {"final_norm.weight", {{"final_layer_norm.weight"}}},
                         {"final_norm.bias", {{"final_layer_norm.bias"}}},
                         {"output.weight", {{"lm_head.weight"}}}},
          .ignored = {".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"},
          .renamed = {{"embed_out.", "lm_head."}},
          .settle = settle_gpt_neox};
}

// llama.cpp's files have GPT-2's names, and all of q, then k, then v.
Family gpt_neox_gguf_family() {
  Family family = gpt2_gguf_family();
  family.name = "gptneox";
  family.read_config = read_gpt_neox_gguf;
  family.parameters.erase("positions.weight");
  return family;
}

}  // namespace polyhead::model
