#include "model/decoding.h"

#include <algorithm>
#include <bit>

namespace polyhead::model {

KvCaches::KvCaches(Context& context, const Transformer& model, std::int64_t batch, std::int64_t capacity)
    : padding_(static_cast<std::size_t>(batch)), capacity_(capacity) {
  const Config& config = model.config();
  const DType storage = autograd::Tape(context, false).inner_type(model.dtype());
  for (const LayerHeads& heads : config.layers) {
    std::optional<KvCache>& layer = layers_.emplace_back();
    if (heads.heads == 0) continue;
    layer.emplace(context, KvCacheSizes{batch, heads.kv_heads, capacity, config.head_dim, config.head_dim}, storage);
  }
}

void KvCaches::clear(Context& context, std::span<const std::int32_t> padding) {
  padding_.assign(padding.begin(), padding.end());
  length_ = 0;
  const ConstTensorView start(padding_.data(), {batch()});
  for (std::optional<KvCache>& layer : layers_) {
    if (!layer) continue;
    layer->clear();
    layer->set_key_start(context, start);
  }
}

void KvCaches::place(Context& context, std::int64_t n) {
  Tensor places = Tensor::empty({(n + 2) * batch()}, DType::i32);
  std::int32_t* next = places.as<std::int32_t>();
  const auto first = static_cast<std::int32_t>(length_);
  for (const std::int32_t padding : padding_) {
    for (std::int32_t t = 0; t < n; ++t) *next++ = std::max(first + t - padding, 0);  // those of padding do not matter
  }
  next = std::fill_n(next, batch(), first);
  std::fill_n(next, batch(), first + static_cast<std::int32_t>(n));
  // The same memory while n stays the same: recorded calls refer to it.
  if (!places_.present() || places_.shape() != places.shape()) {
    places_ = Tensor::empty(places.shape(), DType::i32, context.allocator());
  }
  copy(context, places, places_);
}

ConstTensorView KvCaches::positions() const {
  const std::int64_t count = places_.shape()[0] - 2 * batch();
  return places_.view().slice(0, 0, count).reshape({batch(), batch() == 0 ? 0 : count / batch()});
}

ops::CacheRows KvCaches::rows(bool recorded) const {
  const std::int64_t end = places_.shape()[0], middle = end - batch();
  return {places_.view().slice(0, middle - batch(), middle), places_.view().slice(0, middle, end),
          recorded ? bound() : 0};
}

std::int64_t KvCaches::bound() const {
  constexpr std::uint64_t kLeast = 256;
  return std::min(capacity_, static_cast<std::int64_t>(std::bit_ceil(
                                 std::max<std::uint64_t>(kLeast, static_cast<std::uint64_t>(length_) + 1))));
}

void KvCaches::advance(std::int64_t n) {
  for (std::optional<KvCache>& layer : layers_) {
    if (layer) ops::count(*layer, n);
  }
  length_ += n;
}

}  // namespace polyhead::model
