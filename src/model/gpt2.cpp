#include "model/families.h"
#include "model/family_fields.h"

namespace polyhead::model {
namespace {

Config read_gpt2(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  fields.expect_text("activation_function", {"gelu_new", "gelu_pytorch_tanh"}, "gelu_new");
  fields.expect_flag("scale_attn_weights", true, true);
  fields.expect_flag("scale_attn_by_inverse_layer_idx", false, false);
  fields.expect_flag("add_cross_attention", false, false);
  Config config =
      make_config(Kind::gpt, fields.layers("n_layer", tensors), fields.size("n_embd"), fields.size("n_head"));
  config.vocabulary = fields.size("vocab_size");
  config.context = fields.size("n_positions");
  config.hidden = fields.size_or("n_inner", 4 * config.width);
  config.epsilon = fields.number_or("layer_norm_epsilon", 1e-5);
  config.tied = fields.flag_or("tie_word_embeddings", true);
  return config;
}

Config read_gpt2_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_gguf_sizes({json, where}, "gpt2", Kind::gpt, tensors);
  config.tied = !tensors.contains("output.weight");
  return config;
}

}  // namespace

Family gpt2_family() {
  return {.name = "gpt2",
          .prefix = "transformer.",
          .read_config = read_gpt2,
          .parameters = {{"tokens.weight", {{"wte.weight"}}},
                         {"positions.weight", {{"wpe.weight"}}},
                         {"blocks.{}.attention_norm.weight", {{"h.{}.ln_1.weight"}}},
                         {"blocks.{}.attention_norm.bias", {{"h.{}.ln_1.bias"}}},
                         {"blocks.{}.attention.in_proj_weight", {{"h.{}.attn.c_attn.weight", true}}},
                         {"blocks.{}.attention.in_proj_bias", {{"h.{}.attn.c_attn.bias"}}},
                         {"blocks.{}.attention.out_proj.weight", {{"h.{}.attn.c_proj.weight", true}}},
                         {"blocks.{}.attention.out_proj.bias", {{"h.{}.attn.c_proj.bias"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{"h.{}.ln_2.weight"}}},
                         {"blocks.{}.feed_forward_norm.bias", {{"h.{}.ln_2.bias"}}},
                         {"blocks.{}.feed_forward.up.weight", {{"h.{}.mlp.c_fc.weight", true}}},
                         {"blocks.{}.feed_forward.up.bias", {{"h.{}.mlp.c_fc.bias"}}},
                         {"blocks.{}.feed_forward.down.weight", {{"h.{}.mlp.c_proj.weight", true}}},
                         {"blocks.{}.feed_forward.down.bias", {{"h.{}.mlp.c_proj.bias"}}},
                         {"final_norm.weight", {{"ln_f.weight"}}},
                         {"final_norm.bias", {{"ln_f.bias"}}},
                         {"output.weight", {{"lm_head.weight"}}}},
          .ignored = {".attn.bias", ".attn.masked_bias"}};  // masks
}

Family gpt2_gguf_family() {
  return {.name = "gpt2",
          .prefix = "",
          .read_config = read_gpt2_gguf,
          .parameters = {{"tokens.weight", {{"token_embd.weight"}}},
                         {"positions.weight", {{"position_embd.weight"}}},
                         {"blocks.{}.attention_norm.weight", {{"blk.{}.attn_norm.weight"}}},
                         {"blocks.{}.attention_norm.bias", {{"blk.{}.attn_norm.bias"}}},
                         {"blocks.{}.attention.in_proj_weight", {{"blk.{}.attn_qkv.weight"}}},
                         {"blocks.{}.attention.in_proj_bias", {{"blk.{}.attn_qkv.bias"}}},
                         {"blocks.{}.attention.out_proj.weight", {{"blk.{}.attn_output.weight"}}},
                         {"blocks.{}.attention.out_proj.bias", {{"blk.{}.attn_output.bias"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{"blk.{}.ffn_norm.weight"}}},
                         {"blocks.{}.feed_forward_norm.bias", {{"blk.{}.ffn_norm.bias"}}},
                         {"blocks.{}.feed_forward.up.weight", {{"blk.{}.ffn_up.weight"}}},
                         {"blocks.{}.feed_forward.up.bias", {{"blk.{}.ffn_up.bias"}}},
                         {"blocks.{}.feed_forward.down.weight", {{"blk.{}.ffn_down.weight"}}},
                         {"blocks.{}.feed_forward.down.bias", {{"blk.{}.ffn_down.bias"}}},
                         {"final_norm.weight", {{"output_norm.weight"}}},
                         {"final_norm.bias", {{"output_norm.bias"}}},
                         {"output.weight", {{"output.weight"}}}},
          .ignored = {}};
}

}  // namespace polyhead::model
