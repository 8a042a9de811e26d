#include "serve/maps.h"

#include <algorithm>

#include "polyhead/error.h"
#include "report/page.h"

namespace polyhead::serve {
namespace {

// In weights, of which each is kept as a byte and read as a float.
constexpr std::int64_t kAllLayers = 16 << 20;  // no more than these: all layers are read in one pass
constexpr std::int64_t kOneLayer = 64 << 20;   // more than these: a head is read by itself, and not kept
constexpr std::size_t kMostBytes = 128 << 20, kMostTexts = 8;  // that are kept

std::string bytes_of(const Tensor& weights) {
  const std::vector<std::uint8_t> bytes =
      report::quantised({weights.as<float>(), static_cast<std::size_t>(weights.view().count())});
  return {bytes.begin(), bytes.end()};
}

std::int64_t cells(const Maps::Of& of) { return std::ssize(of.tokens) * std::ssize(of.tokens); }

std::int64_t heads_of(const Maps::Of& of, std::size_t layer) {
  return of.observer.model().config().layers.at(layer).heads;
}

}  // namespace

Maps::Text& Maps::text(const Of& of) {
  auto found = std::find_if(texts_.begin(), texts_.end(), [&](const Text& one) {
    return one.observer == &of.observer && one.tokens == of.tokens && one.gates == of.gates;
  });
  if (found == texts_.end()) found = texts_.insert(found, {&of.observer, of.tokens, of.gates, {}});
  texts_.splice(texts_.begin(), texts_, found);
  return texts_.front();
}

// Drops texts that were asked for long ago; of the last one, all layers where they are too many together.
void Maps::make_room() {
  std::size_t sum = 0, count = 0;
  for (auto one = texts_.begin(); one != texts_.end();) {
    for (const auto& [layer, bytes] : one->layers) sum += bytes.size();
    if (sum > kMostBytes && one == texts_.begin()) {
      one->layers.clear();
      sum = 0;
    }
    one = sum > kMostBytes || ++count > kMostTexts ? texts_.erase(one) : std::next(one);
  }
}

const std::string& Maps::read(const Of& of, std::size_t layer) {
  auto& layers = text(of).layers;
  if (layers.contains(layer)) return layers[layer];
  if (of.observer.model().config().head_count() * cells(of) > kAllLayers) {
    const std::string bytes = bytes_of(of.observer.weights(of.tokens, of.gates, layer));
    make_room();
    return layers[layer] = bytes;
  }
  const std::vector<Tensor> all = of.observer.weights_of_all(of.tokens, of.gates);
  make_room();
  for (std::size_t one = 0; one < all.size(); ++one) {
    if (heads_of(of, one) > 0) layers[one] = bytes_of(all[one]);
  }
  return layers[layer];
}

std::string Maps::layer(const Of& of, std::size_t layer) {
  if (heads_of(of, layer) == 0) return {};
  if (heads_of(of, layer) * cells(of) > kOneLayer) {
    throw Error(ErrorCode::input, "request", "this layer's weights are too many to be sent at once; ask for one head");
  }
  return read(of, layer);
}

std::string Maps::head(const Of& of, const HeadId& head) {
  if (heads_of(of, head.layer) * cells(of) > kOneLayer) {
    return bytes_of(of.observer.weights(of.tokens, of.gates, head.layer, {static_cast<std::int32_t>(head.head)}));
  }
  const auto size = static_cast<std::size_t>(cells(of));
  return read(of, head.layer).substr(static_cast<std::size_t>(head.head) * size, size);
}

}  // namespace polyhead::serve
