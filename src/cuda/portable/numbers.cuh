// Single numbers of float tensors, whatever their type, as f32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cfloat>
#include <cstdint>

#include "polyhead/tensor.h"

namespace polyhead::cuda::portable {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
// A number beyond those of f32 becomes its largest; infinities stay what they are.
__device__ inline float to_float(double x) {
  if (isinf(x) || isnan(x)) return static_cast<float>(x);
  return static_cast<float>(fmin(fmax(x, -static_cast<double>(FLT_MAX)), static_cast<double>(FLT_MAX)));
}

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline double from_float<double>(float x) {
  return x;
}

// what(a number of the type), for the types that tensors of floats have on the device.
template <class What>
__device__ void with_type(DType dtype, const What& what) {
  switch (dtype) {
    case DType::f16: return what(__half{});
    case DType::bf16: return what(__nv_bfloat16{});
    case DType::f64: return what(double{});
    default: return what(float{});
  }
}

__device__ inline float load(const void* data, DType dtype, std::int64_t at) {
  float value = 0;
  with_type(dtype, [&](auto one) { value = to_float(static_cast<const decltype(one)*>(data)[at]); });
  return value;
}
__device__ inline void store(void* data, DType dtype, std::int64_t at, float value) {
  with_type(dtype, [&](auto one) { static_cast<decltype(one)*>(data)[at] = from_float<decltype(one)>(value); });
}

}  // namespace polyhead::cuda::portable
