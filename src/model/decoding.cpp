#include "model/decoding.h"

#include <algorithm>

namespace polyhead::model {

Memory::Memory(Context& context, const Transformer& model, std::int64_t batch, std::int64_t capacity)
    : padding_(static_cast<std::size_t>(batch)), capacity_(capacity) {
  const Config& config = model.config();
  const DType storage = autograd::Tape(context, false).inner_type(model.dtype());
  for (const LayerHeads& heads : config.layers) {
    std::optional<KvCache>& layer = layers_.emplace_back();
    if (heads.heads == 0) continue;
    layer.emplace(context, KvCacheSizes{batch, heads.kv_heads, capacity, config.head_dim, config.head_dim}, storage);
  }
}

void Memory::clear(Context& context, std::span<const std::int32_t> padding) {
  padding_.assign(padding.begin(), padding.end());
  length_ = 0;
  const ConstTensorView start(padding_.data(), {batch()});
  for (std::optional<KvCache>& layer : layers_) {
    if (!layer) continue;
    layer->clear();
    layer->set_key_start(context, start);
  }
}

Tensor Memory::positions(std::int64_t n) const {
  Tensor places = Tensor::empty({batch(), n}, DType::i32);
  for (std::int64_t b = 0; b < batch(); ++b) {
    for (std::int64_t t = 0; t < n; ++t) {
      const auto place = static_cast<std::int32_t>(length_ + t) - padding_[static_cast<std::size_t>(b)];
      places.as<std::int32_t>()[b * n + t] = std::max(place, 0);  // the position of padding does not matter
    }
  }
  return places;
}

}  // namespace polyhead::model
