#include "model/llama.h"

#include "model/family_fields.h"

namespace polyhead::model {
namespace {

constexpr const char *kInBias = "blocks.{}.attention.in_proj_bias", *kOutBias = "blocks.{}.attention.out_proj.bias";

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
  Config config = read_llama_like(json, where, tensors);
  config.bias = fields.flag_or("attention_bias", false) || fields.flag_or("mlp_bias", false);
  return config;
}

void settle_llama(const io::Json& json, const std::string& where, const std::set<std::string>&, Family& family) {
  const Fields fields{json, where};
  if (!fields.flag_or("attention_bias", false)) drop_biases(family, "attention");
  if (!fields.flag_or("mlp_bias", false)) drop_biases(family, "feed_forward");
}

// GGUF has no flags for biases: the tensors of the first layer tell.
constexpr const char *kAttentionBias = "blk.0.attn_q.bias", *kOutputBias = "blk.0.attn_output.bias",
                     *kFeedForwardBias = "blk.0.ffn_down.bias";

Config read_llama_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_llama_like_gguf(json, where, tensors, "llama");
  for (const char* bias : {kAttentionBias, kOutputBias, kFeedForwardBias}) {
    config.bias = config.bias || tensors.contains(bias);
  }
  return config;
}

void settle_llama_gguf(const io::Json&, const std::string&, const std::set<std::string>& tensors, Family& family) {
  if (!tensors.contains(kAttentionBias)) family.parameters[kInBias].clear();
  if (!tensors.contains(kOutputBias)) family.parameters[kOutBias].clear();
  if (!tensors.contains(kFeedForwardBias)) drop_biases(family, "feed_forward");
}

}  // namespace

Config read_llama_like_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors,
                            const std::string& name) {
  const Fields fields{json, where};
  const auto key = [&](const char* rest) { return name + "." + rest; };
  const std::int64_t heads = fields.size(key("attention.head_count"));
  Config config = llama_config(fields.layers(key("block_count"), tensors),
                               {heads, fields.size_or(key("attention.head_count_kv"), heads)});
  config.width = fields.size(key("embedding_length"));
  config.head_dim = fields.size_or(key("attention.key_length"), config.width / heads);
  fields.expect_size(key("attention.value_length"), config.head_dim);
  fields.expect_size(key("rope.dimension_count"), config.head_dim);
  config.hidden = fields.size(key("feed_forward_length"));
  config.vocabulary = gguf_vocabulary(fields, name);
  config.context = fields.size(key("context_length"));
  config.epsilon = fields.number_or(key("attention.layer_norm_rms_epsilon"), 1e-5);
  config.rotary_base = fields.number_or(key("rope.freq_base"), 10000);
  read_gguf_scaling(fields, name, config);
  config.tied = !tensors.contains("output.weight");
  return config;
}

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

Config read_llama_sizes(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  const std::int64_t heads = fields.size("num_attention_heads");
  Config config =
      llama_config(fields.layers("num_hidden_layers", tensors), {heads, fields.size_or("num_key_value_heads", heads)});
  config.width = fields.size("hidden_size");
  config.head_dim = fields.size_or("head_dim", config.width / heads);
  config.hidden = fields.size("intermediate_size");
  config.vocabulary = fields.size("vocab_size");
  config.context = fields.size("max_position_embeddings");
  config.epsilon = fields.number_or("rms_norm_eps", 1e-6);
  config.tied = fields.flag_or("tie_word_embeddings", false);
  return config;
}

Config read_llama_like(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Fields{json, where}.expect_text("hidden_act", {"silu"}, "silu");
  Config config = read_llama_sizes(json, where, tensors);
  read_rotary(json, where, 1, config);
  return config;
}

void read_qwen_windows(const io::Json& json, const std::string& where, Config& config) {
  const Fields fields{json, where};
  if (!fields.flag_or("use_sliding_window", false)) return;
  const std::int64_t first =
      fields.has("max_window_layers") ? io::read_integer(json, "max_window_layers", where, 0, INT32_MAX) : 28;
  read_windows(json, where, fields.size_or_none("sliding_window", 4096), config,
               [&](std::int64_t layer) { return layer >= first; });
}

void read_windows(const io::Json& json, const std::string& where, std::int64_t window, Config& config,
                  const std::function<bool(std::int64_t layer)>& slides) {
  const Fields fields{json, where};
  const std::int64_t layers = std::ssize(config.layers);
  const bool listed = fields.has("layer_types");
  if (listed && (!json["layer_types"].is_array() || std::ssize(json["layer_types"]) != layers)) {
    throw Error(ErrorCode::input, "load",
                where + ": \"layer_types\": expected a list of " + std::to_string(layers) + " layers");
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    bool windowed = slides(layer);
    if (listed) {
      const io::Json& type = json["layer_types"][static_cast<std::size_t>(layer)];
      windowed = type == "sliding_attention";
      if (!windowed && type != "full_attention") {
        throw Error(ErrorCode::input, "load",
                    where + ": \"layer_types\": expected \"full_attention\" or \"sliding_attention\", found " +
                        io::in_quotes(type.dump()));
      }
    }
    config.layers[static_cast<std::size_t>(layer)].window = windowed ? window : 0;
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
                         {kInBias,
                          {{"layers.{}.self_attn.q_proj.bias"},
                           {"layers.{}.self_attn.k_proj.bias"},
                           {"layers.{}.self_attn.v_proj.bias"}}},
                         {"blocks.{}.attention.out_proj.weight", {{"layers.{}.self_attn.o_proj.weight"}}},
                         {kOutBias, {{"layers.{}.self_attn.o_proj.bias"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{"layers.{}.post_attention_layernorm.weight"}}},
                         {"blocks.{}.feed_forward.up.weight",
                          {{"layers.{}.mlp.gate_proj.weight"}, {"layers.{}.mlp.up_proj.weight"}}},
                         {"blocks.{}.feed_forward.up.bias",
                          {{"layers.{}.mlp.gate_proj.bias"}, {"layers.{}.mlp.up_proj.bias"}}},
                         {"blocks.{}.feed_forward.down.weight", {{"layers.{}.mlp.down_proj.weight"}}},
                         {"blocks.{}.feed_forward.down.bias", {{"layers.{}.mlp.down_proj.bias"}}},
                         {"final_norm.weight", {{"norm.weight"}}},
                         {"output.weight", {{"lm_head.weight"}}}},
          .ignored = {".rotary_emb.inv_freq"},
          .settle = settle_llama};
}

// For Llama, llama.cpp's rotary positions pair neighbours, so its files have the rows of q and k in that order.
Family llama_gguf_family() {
  Family family = half_gguf_family("llama", read_llama_gguf);
  for (const char* name : {"blocks.{}.attention.in_proj_weight", kInBias}) {
    std::vector<Source>& projections = family.parameters[name];
    projections[0].interleaved = projections[1].interleaved = true;
  }
  family.rotary_factors = "rope_freqs.weight";
  family.settle = settle_llama_gguf;
  return family;
}

Family with_head_norms(Family family, const std::string& q, const std::string& k, bool plus_one) {
  family.parameters["blocks.{}.attention.q_norm.weight"] = {{.name = q, .plus_one = plus_one}};
  family.parameters["blocks.{}.attention.k_norm.weight"] = {{.name = k, .plus_one = plus_one}};
  return family;
}

Family half_gguf_family(const std::string& name, decltype(Family::read_config) read_config) {
  return {.name = name,
          .prefix = "",
          .read_config = read_config,
          .parameters = {{"tokens.weight", {{"token_embd.weight"}}},
                         {"blocks.{}.attention_norm.weight", {{"blk.{}.attn_norm.weight"}}},
                         {"blocks.{}.attention.in_proj_weight",
                          {{"blk.{}.attn_q.weight"}, {"blk.{}.attn_k.weight"}, {"blk.{}.attn_v.weight"}}},
                         {kInBias, {{"blk.{}.attn_q.bias"}, {"blk.{}.attn_k.bias"}, {"blk.{}.attn_v.bias"}}},
                         {"blocks.{}.attention.out_proj.weight", {{"blk.{}.attn_output.weight"}}},
                         {kOutBias, {{"blk.{}.attn_output.bias"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{"blk.{}.ffn_norm.weight"}}},
                         {"blocks.{}.feed_forward.up.weight", {{"blk.{}.ffn_gate.weight"}, {"blk.{}.ffn_up.weight"}}},
                         {"blocks.{}.feed_forward.up.bias", {{"blk.{}.ffn_gate.bias"}, {"blk.{}.ffn_up.bias"}}},
                         {"blocks.{}.feed_forward.down.weight", {{"blk.{}.ffn_down.weight"}}},
                         {"blocks.{}.feed_forward.down.bias", {{"blk.{}.ffn_down.bias"}}},
                         {"final_norm.weight", {{"output_norm.weight"}}},
                         {"output.weight", {{"output.weight"}}}},
          .ignored = {}};
}

}  // namespace polyhead::model
