#include "model/head.h"

#include <algorithm>

namespace polyhead {

std::string to_string(const HeadId& id) { return std::to_string(id.layer) + "." + std::to_string(id.head); }

}  // namespace polyhead

namespace polyhead::model {

std::vector<HeadId> all_heads(const Config& config) {
  std::vector<HeadId> all;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    for (std::int64_t head = 0; head < config.layers[layer].heads; ++head) all.push_back({layer, head});
  }
  return all;
}

Gates::Gates(const Config& config) {
  for (const LayerHeads& layer : config.layers) {
    tensors_.push_back(layer.heads == 0 ? Tensor() : Tensor::empty({layer.heads}, DType::f32));
    if (layer.heads > 0) std::fill_n(tensors_.back().as<float>(), layer.heads, 1.0f);
  }
}

void Gates::set(const HeadId& id, float value, std::string_view name) {
  const bool layer = id.layer < tensors_.size() && tensors_[id.layer].present();
  if (!layer || id.head < 0 || id.head >= tensors_[id.layer].shape()[0]) {
    throw Error(ErrorCode::value, "knock_out",
                std::string(name) + ": expected a head of the model, found " + to_string(id) +
                    "; layers and heads count from 0");
  }
  tensors_[id.layer].as<float>()[id.head] = value;
}

void Gates::shut(const std::vector<HeadId>& heads, std::string_view name) {
  for (const HeadId& id : heads) set(id, 0, name);
}

}  // namespace polyhead::model
