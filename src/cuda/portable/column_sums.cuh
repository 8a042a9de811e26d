// Sums of columns in a fixed order: a block of threads sums some columns, a few per lane of a warp, over a slice of the
// rows; the last block of those columns to finish adds up the slices.
#pragma once

#include <algorithm>

#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda::portable {

// Rows at a fixed distance.
template <class N>
struct EvenRows {
  N numbers;
  std::int64_t stride;

  template <int kCount>
  using Fetched = typename N::template Fetched<kCount>;
  template <int kCount>
  __device__ Fetched<kCount> fetch(std::int64_t row, std::int64_t column) const {
    return numbers.template fetch<kCount>(row * stride + column);
  }
};

// Where the sums [columns] go.
struct ColumnSums {
  DType dtype;
  void *first, *second;  // the second may be null: not wanted
};

// The terms of sums over rows:
//   fetch<kCount>(row, column)         what a row has from `column` on, read but not looked at
//   get(fetched, row, column, terms)   the terms {of the first sum, of the second} of kCount columns
// Those of the sums of the slices:
struct SliceTerms {
  const float2* partial;  // [slices][columns]
  int columns;

  template <int kCount>
  struct Fetched {
    float2 sums[kCount];
  };
  template <int kCount>
  __device__ Fetched<kCount> fetch(std::int64_t slice, int column) const {
    Fetched<kCount> in;
#pragma unroll
    for (int i = 0; i < kCount; ++i) in.sums[i] = __ldcg(partial + slice * columns + column + i);  // not in this L1
    return in;
  }
  template <int kCount>
  __device__ void get(const Fetched<kCount>& in, std::int64_t, int, float2 (&terms)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) terms[i] = in.sums[i];
  }
};

// parts [0] = the sums over rows [begin, end) for the columns of the block, of which `column` is the lane's first.
template <int kCount, class Terms>
__device__ void sum_in_block(std::int64_t begin, std::int64_t end, int column, int columns, const Terms& terms,
                             float2 (&parts)[8][32 * kCount]) {
  constexpr int kWarps = 8;
  constexpr int kAhead = 4;  // rows of a warp that are under way at once
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float2 sums[kCount] = {};
  const auto add = [&](const auto& fetched, std::int64_t row) {
    float2 more[kCount];
    terms.template get<kCount>(fetched, row, column, more);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[i].x += more[i].x;
      sums[i].y += more[i].y;
    }
  };
  if (column < columns) {
    std::int64_t row = begin + warp;
    for (; row + kWarps * (kAhead - 1) < end; row += kWarps * kAhead) {
      decltype(terms.template fetch<kCount>(row, column)) fetched[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; ++n) fetched[n] = terms.template fetch<kCount>(row + kWarps * n, column);
      asm volatile("" ::: "memory");  // else the compiler puts each load off until its numbers are needed
#pragma unroll
      for (int n = 0; n < kAhead; ++n) add(fetched[n], row + kWarps * n);
    }
    for (; row < end; row += kWarps) add(terms.template fetch<kCount>(row, column), row);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) parts[warp][kCount * lane + i] = sums[i];
  __syncthreads();
  for (int n = threadIdx.x; n < 32 * kCount; n += 256) {
    float2 sum = parts[0][n];
    for (int w = 1; w < kWarps; ++w) {
      sum.x += parts[w][n].x;
      sum.y += parts[w][n].y;
    }
    parts[0][n] = sum;
  }
  __syncthreads();
}

// partial [slices][columns]; finished [column_blocks] counts slices. Three blocks to a multiprocessor: without that
// bound the compiler saves registers, and fetches fewer than kAhead rows at once.
template <int kCount, class Terms>
__global__ void __launch_bounds__(256, 3)
    column_sums_kernel(std::int64_t rows, int columns, int column_blocks, int slices, const Terms terms,
                       float2* partial, int* finished, const ColumnSums sums) {
  __shared__ float2 parts[8][32 * kCount];
  __shared__ bool last;
  begin_in_stream_order();
  const int column_block = blockIdx.x % column_blocks, slice = blockIdx.x / column_blocks;
  const int begin = column_block * 32 * kCount, own = begin + static_cast<int>(threadIdx.x % 32) * kCount;
  sum_in_block<kCount>(rows * slice / slices, rows * (slice + 1) / slices, own, columns, terms, parts);
  for (int n = threadIdx.x; n < 32 * kCount && begin + n < columns; n += 256) {
    partial[std::int64_t{slice} * columns + begin + n] = parts[0][n];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // for the whole block, which has met at the barrier
    last = atomicAdd(finished + column_block, 1) == slices - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  sum_in_block<kCount>(0, slices, own, columns, SliceTerms{partial, columns}, parts);
  for (int n = threadIdx.x; n < 32 * kCount && begin + n < columns; n += 256) {
    store(sums.first, sums.dtype, begin + n, parts[0][n].x);
    if (sums.second != nullptr) store(sums.second, sums.dtype, begin + n, parts[0][n].y);
  }
  if (threadIdx.x == 0) finished[column_block] = 0;
}

// first, second [columns] = the sums, the second if present. in_fours: four columns can be read at a time.
template <class Terms>
void sum_columns(CudaExecutor& executor, std::int64_t rows, std::int64_t columns, bool in_fours, const Terms& terms,
                 const TensorView& first, const TensorView& second) {
  if (columns == 0) return;
  const ColumnSums sums{first.dtype(), first.data(), second.present() ? second.data() : nullptr};
  const auto launch = [&](auto kernel, std::int64_t width) {
    const std::int64_t blocks = (columns + width - 1) / width;
    // Three blocks of threads for each multiprocessor, or what the rows allow: more slices are more to add up at the
    // end.
    const auto slices = static_cast<int>(
        std::clamp<std::int64_t>(3 * executor.queue().processors() / blocks, 1, std::max<std::int64_t>(1, rows / 64)));
    auto* partial = executor.workspace<float2>(Workspace::sums, slices * columns);
    executor.launch_early(kernel, blocks * slices, 256, 0, rows, static_cast<int>(columns), static_cast<int>(blocks),
                          slices, terms, partial, executor.counters(blocks), sums);
  };
  if (in_fours && columns % 4 == 0) return launch(column_sums_kernel<4, Terms>, 128);
  launch(column_sums_kernel<1, Terms>, 32);
}

}  // namespace polyhead::cuda::portable
