// Numbers of tensors that the host makes: single ones of any float type, and their way to a device.
#pragma once

#include <algorithm>

#include "polyhead/tensor.h"

namespace polyhead {

// *to, an element of the type, = value rounded to it.
inline void store_number(double value, DType dtype, void* to) {
  switch (dtype) {
    case DType::f64: *static_cast<double*>(to) = value; return;
    case DType::f32: *static_cast<float*>(to) = static_cast<float>(value); return;
    case DType::f16: *static_cast<float16*>(to) = float16(static_cast<float>(value)); return;
    case DType::bf16: *static_cast<bfloat16*>(to) = bfloat16(static_cast<float>(value)); return;
    default: return;
  }
}

// The numbers of a tensor of the host as f32; those of a float type alone.
inline Tensor widened(Tensor tensor) {
  if (tensor.dtype() == DType::f32) return tensor;
  Tensor wide = Tensor::empty(tensor.shape(), DType::f32);
  const auto convert = [&](const auto* from) {
    std::transform(from, from + count_of(tensor.shape()), wide.as<float>(),
                   [](auto x) { return static_cast<float>(x); });
  };
  switch (tensor.dtype()) {
    case DType::f64: convert(tensor.as<double>()); break;
    case DType::f16: convert(tensor.as<float16>()); break;
    default: convert(tensor.as<bfloat16>()); break;
  }
  return wide;
}

// What a tensor holds, on the host.
inline Tensor copied_to_host(const Tensor& tensor) {
  Tensor here = Tensor::empty(tensor.shape(), tensor.dtype());
  const auto bytes = static_cast<std::size_t>(count_of(tensor.shape())) * size_of(tensor.dtype());
  tensor.allocator()->copy_out(here.view().data(), tensor.view().data(), bytes);
  return here;
}

// A tensor of the host, moved to where the allocator's memory is.
inline Tensor moved_to(const std::shared_ptr<Allocator>& allocator, Tensor tensor) {
  if (allocator->device() == tensor.device()) return tensor;
  Tensor there = Tensor::empty(tensor.shape(), tensor.dtype(), allocator);
  const auto bytes = static_cast<std::size_t>(count_of(tensor.shape())) * size_of(tensor.dtype());
  allocator->copy_in(there.view().data(), tensor.view().data(), bytes);
  return there;
}

}  // namespace polyhead
