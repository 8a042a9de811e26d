// What the backward pass needs to know of every row beforehand, and the gradients of sinks and gates, which follow from
// it.
#pragma once

#include "cuda/sm90/arguments.h"
#include "cuda/sm90/softmax.cuh"

namespace polyhead::cuda::sm90 {

// This thread's part of the dot product of two rows; D / 8 threads share a row.
template <class T>
__device__ inline float dot_of_pieces(const T* left, const T* right, int lane) {
  const uint4 x = reinterpret_cast<const uint4*>(left)[lane], y = reinterpret_cast<const uint4*>(right)[lane];
  float sum = 0;
  const auto add = [&](std::uint32_t p, std::uint32_t q) {
    const float2 a = widen<T>(p), b = widen<T>(q);
    sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
  };
  add(x.x, y.x);
  add(x.y, y.y);
  add(x.z, y.z);
  add(x.w, y.w);
  return sum;
}

// lse_to [B,H,T] in powers of 2, +inf for a row that sees nothing; delta_to = delta_i - dlse_i with delta_i = dO_i .
// output_i, the output as it was stored.
template <class T, int D>
__global__ void __launch_bounds__(256)
    describe_rows_kernel(const Strided<const void> output, const Strided<const void> doutput,
                         const Strided<const float> lse, const Strided<const float> dlse, std::int64_t heads,
                         std::int64_t queries, std::int64_t rows, float* lse_to, float* delta_to) {
  constexpr int kLanes = D / 8;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t row = std::int64_t{blockIdx.x} * (256 / kLanes) + threadIdx.x / kLanes;
  const std::int64_t t = row % queries, h = row / queries % heads, b = row / queries / heads;
  float delta = 0;
  if (row < rows) {
    delta = dot_of_pieces(static_cast<const T*>(output.data) + output.offset(b, h, t),
                          static_cast<const T*>(doutput.data) + doutput.offset(b, h, t), lane);
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) delta += __shfl_xor_sync(~0u, delta, offset);
  if (lane != 0 || row >= rows) return;
  const float sum = lse.data[lse.offset(b, h, t)];
  lse_to[row] = sum == -INFINITY ? INFINITY : sum * kLog2E;
  delta_to[row] = delta - (dlse.data != nullptr ? dlse.data[dlse.offset(b, h, t)] : 0.f);
}

// The sum over a block of 256 threads, in thread 0.
__device__ inline float sum_of_block(float x) {
  __shared__ float sums[256];
  sums[threadIdx.x] = x;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

// to [H]: a sink is a key whose value is 0, so that its ds is -p delta. gates: those that were taken out of delta. A
// block of threads has one head and sums over all rows.
__global__ void __launch_bounds__(256)
    sink_gradient_kernel(const kernels::Sequences sequences, const float* lse, const float* delta, int heads,
                         const PerHead gates, const float* sink_logit, std::int64_t sink_head, float* to,
                         std::int64_t to_head) {
  const int h = static_cast<int>(blockIdx.x);
  const float sink = sink_logit[h * sink_head] * kLog2E;
  float sum = 0;
  for (std::int64_t n = 0; n < sequences.count && sink != -INFINITY; ++n) {
    const kernels::Sequence s = sequences[n];
    const std::int64_t begin = (s.batch * heads + h) * sequences.queries + s.query_begin;
    const float gate = gates.at(static_cast<int>(n), h, 1);
    for (std::int64_t i = threadIdx.x; i < s.queries; i += 256) {
      sum -= exp2_of(sink - lse[begin + i]) * gate * delta[begin + i];
    }
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) to[h * to_head] = sum;
}

// to [N,H]: gates that open the closed heads (gate 0) and close the others; open_heads: 1 if any is open now, else 0.
// One block of threads.
__global__ void __launch_bounds__(256)
    invert_gates_kernel(const PerHead gates, int heads, int count, float* to, int* open_heads) {
  int open = 0;
  for (int n = static_cast<int>(threadIdx.x); n < count; n += 256) {
    const bool closed = gates.at(n / heads, n % heads, 1) == 0;
    to[n] = closed ? 1.f : 0.f;
    open += closed ? 1 : 0;
  }
  const float sum = sum_of_block(static_cast<float>(open));
  if (threadIdx.x == 0) *open_heads = sum > 0 ? 1 : 0;
}

// dgate [N,H] = sum_i dO_i . o_i, with o the output before the gate: the sum of dots + dlse (what delta is without its
// dlse; dots have none), or, for a closed head, from the output that it would have. A block of threads has a head of a
// sequence.
template <class T, int D>
__global__ void __launch_bounds__(256)
    gate_gradient_kernel(const kernels::Sequences sequences, const float* dots, const Strided<const float> dlse,
                         int heads, const PerHead gates, const Strided<const void> doutput,
                         const Strided<const void> closed_output, float* to, std::int64_t to_sequence,
                         std::int64_t to_head) {
  const int n = static_cast<int>(blockIdx.x) / heads, h = static_cast<int>(blockIdx.x) % heads;
  const kernels::Sequence s = sequences[n];
  const float gate = gates.at(n, h, 1);
  float sum = 0;
  if (gate != 0) {
    const std::int64_t begin = (s.batch * heads + h) * sequences.queries + s.query_begin;
    for (std::int64_t i = threadIdx.x; i < s.queries; i += 256) {
      sum += dots[begin + i];
      if (dlse.data != nullptr) sum += dlse.data[dlse.offset(s.batch, h, s.query_begin + i)];
    }
  } else {
    const auto row = [&](const Strided<const void>& x, std::int64_t i) {
      return static_cast<const T*>(x.data) + x.offset(s.batch, h, s.query_begin + i);
    };
    constexpr int kLanes = D / 8;
    for (std::int64_t i = threadIdx.x / kLanes; i < s.queries; i += 256 / kLanes) {
      sum += dot_of_pieces(row(closed_output, i), row(doutput, i), static_cast<int>(threadIdx.x) % kLanes);
    }
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) to[n * to_sequence + h * to_head] = sum;
}

}  // namespace polyhead::cuda::sm90
