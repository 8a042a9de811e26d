// Llama with a norm for every head of q and k, and sliding windows in some layers of some models.
#include "model/families.h"
#include "model/family_fields.h"
#include "model/llama.h"

namespace polyhead::model {
namespace {

Config read_qwen3(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  Config config = read_llama_like(json, where, tensors);
  config.bias = fields.flag_or("attention_bias", false);
  config.head_dim = fields.size_or("head_dim", 128);
  config.qk_norm = true;
  read_qwen_windows(json, where, config);
  return config;
}

Config read_qwen3_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_llama_like_gguf(json, where, tensors, "qwen3");
  config.qk_norm = true;
  return config;
}

}  // namespace

Family qwen3_family() {
  Family family =
      with_head_norms(llama_family(), "layers.{}.self_attn.q_norm.weight", "layers.{}.self_attn.k_norm.weight");
  family.name = "qwen3";
  family.read_config = read_qwen3;
  return family;
}

Family qwen3_gguf_family() {
  return with_head_norms(half_gguf_family("qwen3", read_qwen3_gguf), "blk.{}.attn_q_norm.weight",
                         "blk.{}.attn_k_norm.weight");
}

}  // namespace polyhead::model
