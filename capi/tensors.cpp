#include "capi/tensors.h"

#include <cstddef>
#include <string>

#include "polyhead/error.h"

namespace polyhead::capi {
namespace {

// The codes of DLPack.
enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };
enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

[[noreturn]] void refuse(ErrorCode code, std::string_view op, std::string_view name, const std::string& what) {
  throw Error(code, op, std::string(name) + ": " + what);
}

Device device_of(const polyhead_tensor& tensor, std::string_view op, std::string_view name) {
  switch (tensor.device.type) {
    case kCpu:
    case kCudaHost: return {};
    case kCuda:
    case kCudaManaged: return {Device::Kind::cuda, tensor.device.index};
  }
  refuse(ErrorCode::device, op, name,
         "expected memory of the host (device type 1) or of CUDA (2), found device type " +
             std::to_string(tensor.device.type));
}

polyhead_dtype dtype_in_c(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16: return {kFloat, bits, 1};
    case DType::bf16: return {kBfloat, bits, 1};
    case DType::i32:
    case DType::i64: return {kInt, bits, 1};
    case DType::boolean:
    case DType::blocks: break;
  }
  return {kBool, bits, 1};
}

}  // namespace

DType element_type(const polyhead_dtype& dtype, std::string_view op, std::string_view name) {
  if (dtype.lanes == 1) {
    if (dtype.code == kUInt && dtype.bits == 8) return DType::boolean;
    for (const DType ours : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64, DType::boolean}) {
      const polyhead_dtype known = dtype_in_c(ours);
      if (known.code == dtype.code && known.bits == dtype.bits) return ours;
    }
  }
  refuse(ErrorCode::dtype, op, name,
         "expected f64, f32, f16, bf16, i32, i64 or bool, found DLPack code " + std::to_string(dtype.code) + ", " +
             std::to_string(dtype.bits) + " bits, " + std::to_string(dtype.lanes) + " lanes");
}

TensorView writable_view_of(const polyhead_tensor* tensor, std::string_view op, std::string_view name) {
  if (tensor == nullptr) return {};
  if (tensor->rank < 0 || tensor->rank > kMaxRank) {
    refuse(ErrorCode::shape, op, name,
           "expected rank 0 to " + std::to_string(kMaxRank) + ", found " + std::to_string(tensor->rank));
  }
  if (tensor->rank > 0 && tensor->shape == nullptr) refuse(ErrorCode::shape, op, name, "shape must not be NULL");
  Dims shape(tensor->rank, 0);
  for (int axis = 0; axis < tensor->rank; ++axis) shape[axis] = tensor->shape[axis];
  Dims strides = contiguous_strides(shape);
  if (tensor->strides != nullptr) {
    for (int axis = 0; axis < tensor->rank; ++axis) strides[axis] = tensor->strides[axis];
  }
  auto* const data = static_cast<std::byte*>(tensor->data);
  return TensorView(data == nullptr ? nullptr : data + tensor->byte_offset, element_type(tensor->dtype, op, name),
                    shape, strides, device_of(*tensor, op, name));
}

ConstTensorView view_of(const polyhead_tensor* tensor, std::string_view op, std::string_view name) {
  return writable_view_of(tensor, op, name);
}

void fill(polyhead_view& to, const ConstTensorView& from) {
  for (int axis = 0; axis < from.rank(); ++axis) {
    to.shape[axis] = from.shape(axis);
    to.strides[axis] = from.stride(axis);
  }
  const bool host = from.device().kind == Device::Kind::cpu;
  to.tensor = {const_cast<void*>(from.data()),
               {host ? kCpu : kCuda, from.device().index},
               from.rank(),
               dtype_in_c(from.dtype()),
               to.shape,
               to.strides,
               0};
}

}  // namespace polyhead::capi
