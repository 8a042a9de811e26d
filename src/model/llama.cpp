#include "model/family.h"
#include "model/family_fields.h"

namespace polyhead::model {
namespace {

Config llama_config(std::int64_t layers, const LayerHeads& heads) {
  Config config;
  config.layers.assign(static_cast<std::size_t>(layers), heads);
  config.positions = Positions::rotary;
  config.norm = Norm::rms;
  config.feed_forward = FeedForward::swiglu;
  config.bias = false;
  return config;
}

// The base: "rope_theta", which newer files have among "rope_parameters". Stretched positions are refused.
double rotary_base(const io::Json& json, const std::string& where) {
  double base = 10000;
  const Fields fields{json, where};
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    const Fields inner{*found, where + ": " + key};
    inner.expect_text("rope_type", {"default"}, "default");
    inner.expect_text("type", {"default"}, "default");
    base = inner.number_or("rope_theta", base);
  }
  return fields.number_or("rope_theta", base);
}

Config read_llama(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  fields.expect_text("hidden_act", {"silu"}, "silu");
  fields.expect_flag("attention_bias", false, false);
  fields.expect_flag("mlp_bias", false, false);
  const std::int64_t heads = fields.size("num_attention_heads");
  Config config =
      llama_config(fields.layers("num_hidden_layers", tensors), {heads, fields.size_or("num_key_value_heads", heads)});
  config.width = fields.size("hidden_size");
  config.head_dim = fields.size_or("head_dim", config.width / heads);
  config.hidden = fields.size("intermediate_size");
  config.vocabulary = fields.size("vocab_size");
  config.context = fields.size("max_position_embeddings");
  config.epsilon = fields.number_or("rms_norm_eps", 1e-6);
  config.rotary_base = rotary_base(json, where);
  config.tied = fields.flag_or("tie_word_embeddings", false);
  return config;
}

Config read_llama_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  fields.expect_text("llama.rope.scaling.type", {"none"}, "none");
  const std::int64_t heads = fields.size("llama.attention.head_count");
  Config config = llama_config(fields.layers("llama.block_count", tensors),
                               {heads, fields.size_or("llama.attention.head_count_kv", heads)});
  config.width = fields.size("llama.embedding_length");
  config.head_dim = fields.size_or("llama.attention.key_length", config.width / heads);
  fields.expect_size("llama.rope.dimension_count", config.head_dim);
  config.hidden = fields.size("llama.feed_forward_length");
  const auto tokens = json.find("tokenizer.ggml.tokens");
  config.vocabulary =
      fields.size_or("llama.vocab_size", tokens == json.end() ? 0 : static_cast<std::int64_t>(tokens->size()));
  config.context = fields.size("llama.context_length");
  config.epsilon = fields.number_or("llama.attention.layer_norm_rms_epsilon", 1e-5);
  config.rotary_base = fields.number_or("llama.rope.freq_base", 10000);
  config.tied = !tensors.contains("output.weight");
  return config;
}

}  // namespace

Family llama_family() {
  return {.name = "llama",
          .prefix = "model.",
          .read_config = read_llama,
          .parameters = {{"tokens.weight", {{"embed_tokens.weight"}}},
                         {"blocks.{}.attention_norm.weight", {{"layers.{}.input_layernorm.weight"}}},
                         {"blocks.{}.attention.in_proj_weight",
                          {{"layers.{}.self_attn.q_proj.weight"},
                           {"layers.{}.self_attn.k_proj.weight"},
                           {"layers.{}.self_attn.v_proj.weight"}}},
                         {"blocks.{}.attention.out_proj.weight", {{"layers.{}.self_attn.o_proj.weight"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{"layers.{}.post_attention_layernorm.weight"}}},
                         {"blocks.{}.feed_forward.up.weight",
                          {{"layers.{}.mlp.gate_proj.weight"}, {"layers.{}.mlp.up_proj.weight"}}},
                         {"blocks.{}.feed_forward.down.weight", {{"layers.{}.mlp.down_proj.weight"}}},
                         {"final_norm.weight", {{"norm.weight"}}},
                         {"output.weight", {{"lm_head.weight"}}}},
          .ignored = {".rotary_emb.inv_freq"}};
}

// llama.cpp's rotary positions pair neighbours, so its files have the rows of q and k in that order.
Family llama_gguf_family() {
  const bool interleaved = true;
  return {.name = "llama",
          .prefix = "",
          .read_config = read_llama_gguf,
          .parameters = {{"tokens.weight", {{"token_embd.weight"}}},
                         {"blocks.{}.attention_norm.weight", {{"blk.{}.attn_norm.weight"}}},
                         {"blocks.{}.attention.in_proj_weight",
                          {{"blk.{}.attn_q.weight", false, interleaved},
                           {"blk.{}.attn_k.weight", false, interleaved},
                           {"blk.{}.attn_v.weight"}}},
                         {"blocks.{}.attention.out_proj.weight", {{"blk.{}.attn_output.weight"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{"blk.{}.ffn_norm.weight"}}},
                         {"blocks.{}.feed_forward.up.weight", {{"blk.{}.ffn_gate.weight"}, {"blk.{}.ffn_up.weight"}}},
                         {"blocks.{}.feed_forward.down.weight", {{"blk.{}.ffn_down.weight"}}},
                         {"final_norm.weight", {{"output_norm.weight"}}},
                         {"output.weight", {{"output.weight"}}}},
          .ignored = {}};
}

}  // namespace polyhead::model
