// Conversion of elements between float types on the host, and copies of tensors to and from a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "core/blocks.h"
#include "polyhead/tensor.h"

namespace polyhead {

// *to = value, rounded to the float type `dtype`.
inline void store_number(double value, DType dtype, void* to) {
  switch (dtype) {
    case DType::f64: *static_cast<double*>(to) = value; return;
    case DType::f32: *static_cast<float*>(to) = static_cast<float>(value); return;
    case DType::f16: *static_cast<float16*>(to) = float16(static_cast<float>(value)); return;
    case DType::bf16: *static_cast<bfloat16*>(to) = bfloat16(static_cast<float>(value)); return;
    default: return;
  }
}

// The element of a float type at this offset of a host tensor.
inline double load_number(const ConstTensorView& from, std::int64_t offset) {
  switch (from.dtype()) {
    case DType::f64: return static_cast<const double*>(from.data())[offset];
    case DType::f32: return static_cast<double>(static_cast<const float*>(from.data())[offset]);
    case DType::f16: return static_cast<double>(static_cast<float>(static_cast<const float16*>(from.data())[offset]));
    default: return static_cast<double>(static_cast<float>(static_cast<const bfloat16*>(from.data())[offset]));
  }
}

// Of a host tensor.
inline std::span<std::byte> bytes_of(Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.view().data()), tensor.bytes()};
}

// A host tensor of any float type, or of blocks, as f32.
inline Tensor widened(Tensor tensor) {
  if (tensor.dtype() == DType::f32) return tensor;
  if (tensor.dtype() == DType::blocks) return widened_blocks(tensor);
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

// A host tensor of any float type in f32 or in one of 16 bits, rounded to nearest even.
inline Tensor converted(Tensor tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  Tensor wide = widened(std::move(tensor));
  if (dtype == DType::f32) return wide;
  Tensor half = Tensor::empty(wide.shape(), dtype);
  const auto convert = [&](auto* to) {
    using Number = std::remove_pointer_t<decltype(to)>;
    const float* const from = wide.as<float>();
    std::transform(from, from + count_of(wide.shape()), to, [](float x) { return Number(x); });
  };
  dtype == DType::f16 ? convert(half.as<float16>()) : convert(half.as<bfloat16>());
  return half;
}

// A copy of a tensor, on the host.
inline Tensor copied_to_host(const Tensor& tensor) {
  Tensor here = Tensor::with_bytes(tensor.bytes(), tensor.shape(), tensor.dtype());
  tensor.allocator()->copy_out(here.view().data(), tensor.view().data(), tensor.bytes());
  return here;
}

// The same, with blocks as f32.
inline Tensor numbers_on_host(const Tensor& tensor) {
  return tensor.dtype() == DType::blocks ? widened_blocks(tensor) : copied_to_host(tensor);
}

// A host tensor, copied to the allocator's device unless that is the host.
inline Tensor moved_to(const std::shared_ptr<Allocator>& allocator, Tensor tensor) {
  if (allocator->device() == tensor.device()) return tensor;
  Tensor there = Tensor::empty(tensor.shape(), tensor.dtype(), allocator);
  allocator->copy_in(there.view().data(), tensor.view().data(), tensor.bytes());
  return there;
}

}  // namespace polyhead
