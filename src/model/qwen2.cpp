// Llama with biases for q, k and v, and with sliding windows in some layers, if at all.
#include <cstdint>

#include "model/family.h"
#include "model/family_fields.h"
#include "model/llama.h"

namespace polyhead::model {
namespace {

Config read_qwen2(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_llama_like(json, where, tensors);
  config.bias = true;
  const Fields fields{json, where};
  if (!fields.flag_or("use_sliding_window", false)) return config;
  const std::int64_t first =
      fields.has("max_window_layers") ? io::read_integer(json, "max_window_layers", where, 0, INT32_MAX) : 28;
  read_windows(json, where, fields.size_or_none("sliding_window", 4096), first, config);
  return config;
}

}  // namespace

Family qwen2_family() {
  Family family = llama_family();
  family.name = "qwen2";
  family.read_config = read_qwen2;
  family.parameters.merge(std::map<std::string, std::vector<Source>>{
      {"blocks.{}.attention.in_proj_bias",
       {{"layers.{}.self_attn.q_proj.bias"}, {"layers.{}.self_attn.k_proj.bias"}, {"layers.{}.self_attn.v_proj.bias"}}},
      {"blocks.{}.attention.out_proj.bias", {}},
      {"blocks.{}.feed_forward.up.bias", {}},
      {"blocks.{}.feed_forward.down.bias", {}}});
  return family;
}

}  // namespace polyhead::model
