#include "cuda/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace polyhead::cuda {
namespace {

// Looked up at run time, so that nothing of ours links the driver.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  static const auto function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    return found == cudaDriverEntryPointSuccess ? reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry) : nullptr;
  }();
  return function;
}

}  // namespace

bool is_mappable(const ConstTensorView& tensor) noexcept {
  if (size_of(tensor.dtype()) != 2 || reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t stride = tensor.stride(axis);
    if (tensor.shape(axis) > 1 && (stride <= 0 || stride % 8 != 0 || stride >= std::int64_t{1} << 38)) return false;
  }
  return true;
}

CUtensorMap map_of(const ConstTensorView& tensor, int rows) {
  const auto size = [&](int axis) { return static_cast<cuuint64_t>(tensor.shape(axis)); };
  const auto bytes = [&](int axis) {  // an axis of one element may have any stride
    return tensor.shape(axis) > 1 ? static_cast<cuuint64_t>(tensor.stride(axis)) * 2 : cuuint64_t{16};
  };
  const cuuint64_t sizes[] = {size(3), size(2), size(1), size(0)}, strides[] = {bytes(2), bytes(1), bytes(0)};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(rows), 1, 1}, steps[] = {1, 1, 1, 1};
  const auto type = tensor.dtype() == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  CUtensorMap map;
  const auto encode = encoder();
  const CUresult result = encode == nullptr
                              ? CUDA_ERROR_NOT_FOUND
                              : encode(&map, type, 4, const_cast<void*>(tensor.data()), sizes, strides, box, steps,
                                       CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                       CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorCode::device, "cuda",
                "cuTensorMapEncodeTiled failed with " + std::to_string(result) + " for " + describe(tensor) +
                    " with strides " + to_string(tensor.strides()));
  }
  return map;
}

}  // namespace polyhead::cuda
