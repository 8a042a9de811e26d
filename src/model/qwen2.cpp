// Llama with biases for q, k and v, and sliding windows in some layers of some models.
#include "model/families.h"
#include "model/family_fields.h"
#include "model/llama.h"

namespace polyhead::model {
namespace {

Config read_qwen2(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_llama_like(json, where, tensors);
  config.bias = true;
  read_qwen_windows(json, where, config);
  return config;
}

Config read_qwen2_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_llama_like_gguf(json, where, tensors, "qwen2");
  config.bias = true;
  return config;
}

// Biases of q, k and v only.
Family with_biases(Family family) {
  family.parameters["blocks.{}.attention.out_proj.bias"].clear();
  drop_biases(family, "feed_forward");
  family.settle = nullptr;
  return family;
}

}  // namespace

Family qwen2_family() {
  Family family = with_biases(llama_family());
  family.name = "qwen2";
  family.read_config = read_qwen2;
  return family;
}

Family qwen2_gguf_family() { return with_biases(half_gguf_family("qwen2", read_qwen2_gguf)); }

}  // namespace polyhead::model
