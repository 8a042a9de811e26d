// Sums of columns in a fixed order: blocks of 32 columns and a slice of the rows leave partial sums, which are then
// added up slice by slice.
#pragma once

#include <algorithm>

#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda::portable {

// value(row, column) is a float2: two sums at a time.
template <class Value>
__global__ void __launch_bounds__(256) column_slices_kernel(std::int64_t rows, int columns, int column_blocks,
                                                            int slices, const Value value, float2* partial) {
  __shared__ float2 parts[8][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slice = blockIdx.x / column_blocks;
  const int column = static_cast<int>(blockIdx.x % column_blocks) * 32 + lane;
  const std::int64_t begin = rows * slice / slices, end = rows * (slice + 1) / slices;
  float2 sum{0, 0};
  for (std::int64_t row = begin + warp; row < end && column < columns; row += 8) {
    const float2 more = value(row, column);
    sum.x += more.x;
    sum.y += more.y;
  }
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int w = 1; w < 8; ++w) {
    sum.x += parts[w][lane].x;
    sum.y += parts[w][lane].y;
  }
  partial[std::int64_t{slice} * columns + column] = sum;
}

struct AddSlices {
  const float2* partial;
  int columns, slices;
  DType dtype;
  void *first, *second;  // null: not wanted

  __device__ void operator()(std::int64_t column) const {
    float2 sum{0, 0};
    for (int slice = 0; slice < slices; ++slice) {
      const float2 more = partial[std::int64_t{slice} * columns + column];
      sum.x += more.x;
      sum.y += more.y;
    }
    store(first, dtype, column, sum.x);
    if (second != nullptr) store(second, dtype, column, sum.y);
  }
};

template <class Value>
void sum_columns(CudaExecutor& executor, std::int64_t rows, std::int64_t columns, const Value& value,
                 const TensorView& first, const TensorView& second) {
  const auto slices = static_cast<int>(std::clamp<std::int64_t>(rows / 64, 1, 64));
  const auto width = static_cast<int>(columns), blocks = (width + 31) / 32;
  auto* partial = executor.workspace<float2>(Workspace::sums, slices * columns);
  executor.launch(column_slices_kernel<Value>, std::int64_t{blocks} * slices, 256, rows, width, blocks, slices, value,
                  partial);
  for_elements(
      executor, columns,
      AddSlices{partial, width, slices, first.dtype(), first.data(), second.present() ? second.data() : nullptr});
}

}  // namespace polyhead::cuda::portable
