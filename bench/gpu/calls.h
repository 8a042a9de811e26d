// What the calls of bench/gpu share: the context, the errors that Python is told, and graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

#include "cuda/executor.h"

namespace polyhead::bench::gpu {

inline constexpr Device kGpu{Device::Kind::cuda, 0};

inline Context& context() {
  static Context gpu(kGpu);
  return gpu;
}
inline cudaStream_t stream() { return static_cast<cuda::CudaExecutor&>(context().executor()).stream(); }

// Memory that torch owns; absent if the address is 0.
template <class View = ConstTensorView>
View view(std::int64_t address, DType dtype, const Dims& shape) {
  if (address == 0) return {};
  using Void = std::conditional_t<std::is_same_v<View, TensorView>, void, const void>;
  return View(reinterpret_cast<Void*>(address), dtype, shape, contiguous_strides(shape), kGpu);
}

// What a call threw, kept until the next one; null if nothing.
template <class Action>
const char* said(const Action& action) {
  static std::string text;
  try {
    action();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}

// `count` of a call in one graph, for polyhead_gpu_replay; there is one such graph at a time.
void capture(const std::function<void()>& call, std::int64_t count);

}  // namespace polyhead::bench::gpu
