// Sums of columns in a fixed order: a block of threads sums some columns, a few per lane of a warp, over a slice of the
// rows; its partial sums are then added up over the slices.
#pragma once

#include <algorithm>

#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda::portable {

// value(row, column, first, second) gives a row's terms of two sums, for kCount columns from `column` on.
// partial [slices][columns].
template <int kCount, class Value>
__global__ void __launch_bounds__(256) column_slices_kernel(std::int64_t rows, int columns, int column_blocks,
                                                            int slices, const Value value, float2* partial) {
  __shared__ float2 parts[8][32 * kCount];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slice = blockIdx.x / column_blocks;
  const int column = (static_cast<int>(blockIdx.x % column_blocks) * 32 + lane) * kCount;
  const std::int64_t begin = rows * slice / slices, end = rows * (slice + 1) / slices;
  float first[kCount] = {}, second[kCount] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + warp; row < end; row += 8) {
      float more_first[kCount], more_second[kCount];
      value(row, column, more_first, more_second);
      for (int i = 0; i < kCount; ++i) {
        first[i] += more_first[i];
        second[i] += more_second[i];
      }
    }
  }
  for (int i = 0; i < kCount; ++i) parts[warp][kCount * lane + i] = {first[i], second[i]};
  __syncthreads();
  for (int n = threadIdx.x; n < 32 * kCount; n += 256) {
    const int at = static_cast<int>(blockIdx.x % column_blocks) * 32 * kCount + n;
    if (at >= columns) break;
    float2 sum = parts[0][n];
    for (int w = 1; w < 8; ++w) {
      sum.x += parts[w][n].x;
      sum.y += parts[w][n].y;
    }
    partial[std::int64_t{slice} * columns + at] = sum;
  }
}

// A warp adds up the slices of a column.
struct AddSlices {
  const float2* partial;
  int columns, slices;
  DType dtype;
  void *first, *second;  // null: not wanted

  __device__ void operator()(std::int64_t column, int lane) const {
    float2 sum{0, 0};
    for (int slice = lane; slice < slices; slice += 32) {
      const float2 more = partial[std::int64_t{slice} * columns + column];
      sum.x += more.x;
      sum.y += more.y;
    }
    sum.x = warp_sum(sum.x);
    if (lane == 0) store(first, dtype, column, sum.x);
    if (second == nullptr) return;
    sum.y = warp_sum(sum.y);
    if (lane == 0) store(second, dtype, column, sum.y);
  }
};

// first, second [columns] = the sums, the second if present. in_fours: value can also give four columns at a time.
template <class Value>
void sum_columns(CudaExecutor& executor, std::int64_t rows, std::int64_t columns, bool in_fours, const Value& value,
                 const TensorView& first, const TensorView& second) {
  const auto slices = static_cast<int>(std::clamp<std::int64_t>(rows / 64, 1, 128));
  const auto width = static_cast<int>(columns), blocks = (width + 31) / 32, wide_blocks = (width + 127) / 128;
  auto* partial = executor.workspace<float2>(Workspace::sums, slices * columns);
  if (in_fours && columns % 4 == 0) {
    executor.launch(column_slices_kernel<4, Value>, std::int64_t{wide_blocks} * slices, 256, rows, width, wide_blocks,
                    slices, value, partial);
  } else {
    executor.launch(column_slices_kernel<1, Value>, std::int64_t{blocks} * slices, 256, rows, width, blocks, slices,
                    value, partial);
  }
  for_rows(executor, columns,
           AddSlices{partial, width, slices, first.dtype(), first.data(), second.present() ? second.data() : nullptr});
}

}  // namespace polyhead::cuda::portable
