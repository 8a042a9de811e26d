// Tensors of a test on the device, with their strides.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "polyhead/context.h"

namespace polyhead::test::gpu {

// Memory of the host copied whole, and views of it turned into views of the copies.
class Moved {
 public:
  Moved(Context& context, const std::vector<Tensor>& memory) {
    for (const Tensor& tensor : memory) {
      Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), context.allocator());
      context.allocator()->copy_in(copy.view().data(), tensor.view().data(), bytes_of(tensor));
      pairs_.emplace_back(&tensor, std::move(copy));
    }
  }

  ConstTensorView operator()(const ConstTensorView& view) const {
    if (!view.present()) return {};
    if (view.count() == 0)
      return {pairs_.front().second.view().data(), view.dtype(), view.shape(), view.strides(),
              pairs_.front().second.device()};
    for (const auto& [host, copy] : pairs_) {
      const auto* begin = static_cast<const std::byte*>(host->view().data());
      const auto* at = static_cast<const std::byte*>(view.data());
      if (at < begin || at >= begin + bytes_of(*host)) continue;
      return {static_cast<const std::byte*>(copy.view().data()) + (at - begin), view.dtype(), view.shape(),
              view.strides(), copy.device()};
    }
    return {};  // judged as missing
  }

  static std::size_t bytes_of(const Tensor& tensor) {
    return static_cast<std::size_t>(tensor.view().count()) * size_of(tensor.dtype());
  }

 private:
  std::vector<std::pair<const Tensor*, Tensor>> pairs_;
};

// A tensor like the host's, on the device, every byte 0xff: NaN shows where nothing was written.
inline Tensor poisoned_like(Context& context, const Tensor& host) {
  if (!host.present()) return {};
  const std::vector<std::byte> bytes(Moved::bytes_of(host), std::byte{0xff});
  Tensor tensor = Tensor::empty(host.shape(), host.dtype(), context.allocator());
  context.allocator()->copy_in(tensor.view().data(), bytes.data(), bytes.size());
  return tensor;
}

inline void bring_back(Context& context, const Tensor& device, Tensor& host) {
  if (device.present()) {
    context.allocator()->copy_out(host.view().data(), device.view().data(), Moved::bytes_of(device));
  }
}

}  // namespace polyhead::test::gpu
