// One thread per element, or one warp per row: what the ops other than attention are made of.
#pragma once

#include <cstdint>

#include "cuda/device/stream_order.cuh"
#include "cuda/executor.h"

namespace polyhead::cuda::portable {

// All of these kernels are launched while the one before them still runs, and wait for it here, which saves most of the
// time between two short ones.
__device__ inline void begin_in_stream_order() {
  device::wait_for_earlier();
  device::let_next_begin();
}

inline constexpr int kElementThreads = 256;

template <class What>
__global__ void __launch_bounds__(kElementThreads) elements_kernel(std::int64_t count, const What what) {
  begin_in_stream_order();
  const std::int64_t n = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (n < count) what(n);
}

// what(n) for n in [0, count); What is a struct with a device operator().
template <class What>
void for_elements(CudaExecutor& executor, std::int64_t count, const What& what) {
  executor.launch_early(elements_kernel<What>, (count + kElementThreads - 1) / kElementThreads, kElementThreads, 0,
                        count, what);
}

template <class What>
__global__ void __launch_bounds__(kElementThreads) rows_of_warps_kernel(std::int64_t rows, const What what) {
  begin_in_stream_order();
  const std::int64_t row = std::int64_t{blockIdx.x} * (kElementThreads / 32) + threadIdx.x / 32;
  if (row < rows) what(row, static_cast<int>(threadIdx.x % 32));
}

// what(row, lane): a warp per row.
template <class What>
void for_rows(CudaExecutor& executor, std::int64_t rows, const What& what) {
  constexpr int kRows = kElementThreads / 32;
  executor.launch_early(rows_of_warps_kernel<What>, (rows + kRows - 1) / kRows, kElementThreads, 0, rows, what);
}

__device__ inline float warp_sum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

inline const float* floats(const ConstTensorView& view) { return static_cast<const float*>(view.data()); }
inline float* floats(const TensorView& view) { return static_cast<float*>(view.data()); }
// Null where the view is absent.
inline const float* floats_or_null(const ConstTensorView& view) { return view.present() ? floats(view) : nullptr; }

}  // namespace polyhead::cuda::portable
