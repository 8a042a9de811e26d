// Llama with a sliding window.
#include "model/families.h"
#include "model/family_fields.h"
#include "model/llama.h"

namespace polyhead::model {
namespace {

Config read_mistral(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_llama_like(json, where, tensors);
  const std::int64_t window = Fields{json, where}.size_or_none("sliding_window", 4096);
  for (LayerHeads& layer : config.layers) layer.window = window;
  return config;
}

}  // namespace

Family mistral_family() {
  Family family = llama_family();
  family.name = "mistral";
  family.read_config = read_mistral;
  return family;
}

}  // namespace polyhead::model
