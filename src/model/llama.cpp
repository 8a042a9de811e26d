#include "model/llama.h"

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

Config read_llama(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  fields.expect_flag("attention_bias", false, false);
  fields.expect_flag("mlp_bias", false, false);
  return read_llama_like(json, where, tensors);
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

void read_rotary(const io::Json& json, const std::string& where, double share, Config& config) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_object()) throw Error(ErrorCode::input, "load", where + ": \"" + key + "\": expected an object");
    const Fields inner{*found, where + ": " + key};
    const std::string type_key = inner.has("rope_type") ? "rope_type" : "type";
    inner.expect_text(type_key, {"default", "linear", "llama3"}, "default");
    const std::string type = inner.has(type_key) ? io::read_text(*found, type_key, inner.where) : "default";
    RotaryScaling& scaling = config.rotary_scaling;
    if (type != "default") scaling.factor = inner.number("factor");
    if (type == "llama3") {
      scaling.slow = inner.number("low_freq_factor");
      scaling.fast = inner.number("high_freq_factor");
      scaling.context = inner.size("original_max_position_embeddings");
    }
    config.rotary_base = inner.number_or("rope_theta", config.rotary_base);
    share = inner.share_or("partial_rotary_factor", share);
  }
  const Fields fields{json, where};
  config.rotary_base = fields.number_or("rope_theta", config.rotary_base);
  share = fields.share_or("partial_rotary_factor", share);
  if (share != 1) config.rotary_dim = static_cast<std::int64_t>(share * static_cast<double>(config.head_dim));
}

Config read_llama_like(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  fields.expect_text("hidden_act", {"silu"}, "silu");
  const std::int64_t heads = fields.size("num_attention_heads");
  Config config =
      llama_config(fields.layers("num_hidden_layers", tensors), {heads, fields.size_or("num_key_value_heads", heads)});
  config.width = fields.size("hidden_size");
  config.head_dim = fields.size_or("head_dim", config.width / heads);
  config.hidden = fields.size("intermediate_size");
  config.vocabulary = fields.size("vocab_size");
  config.context = fields.size("max_position_embeddings");
  config.epsilon = fields.number_or("rms_norm_eps", 1e-6);
  read_rotary(json, where, 1, config);
  config.tied = fields.flag_or("tie_word_embeddings", false);
  return config;
}

void read_windows(const io::Json& json, const std::string& where, std::int64_t window, std::int64_t first,
                  Config& config) {
  const Fields fields{json, where};
  const std::int64_t layers = std::ssize(config.layers);
  const bool listed = fields.has("layer_types");
  if (listed && (!json["layer_types"].is_array() || std::ssize(json["layer_types"]) != layers)) {
    throw Error(ErrorCode::input, "load",
                where + ": \"layer_types\": expected a list of " + std::to_string(layers) + " layers");
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    bool slides = layer >= first;
    if (listed) {
      const io::Json& type = json["layer_types"][static_cast<std::size_t>(layer)];
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention") {
        throw Error(ErrorCode::input, "load",
                    where + ": \"layer_types\": expected \"full_attention\" or \"sliding_attention\", found " +
                        io::in_quotes(type.dump()));
      }
    }
    config.layers[static_cast<std::size_t>(layer)].window = slides ? window : 0;
  }
}

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
