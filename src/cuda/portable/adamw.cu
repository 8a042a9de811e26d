// AdamW, f32: one pass over weight, both moments and gradient.
#include <algorithm>
#include <cmath>

#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct AdamW {
  float *weight, *first, *second;
  const float* gradient;
  float factor, rate, root, keep, fresh1, b2, fresh2, epsilon;
  __device__ void operator()(std::int64_t n) const {
    const float g = factor * gradient[n], m = fmaf(fresh1, g - first[n], first[n]);
    const float v = fmaf(b2, second[n], fresh2 * g * g);
    first[n] = m;
    second[n] = v;
    weight[n] = fmaf(weight[n], keep, -(rate * m / fmaf(sqrtf(v), root, epsilon)));
  }
};

constexpr int kSumThreads = 256, kSumBlocks = 512;

// Thread n of all takes every so many elements, from n on; a block leaves its sum in parts.
__global__ void __launch_bounds__(kSumThreads)
    squares_kernel(const float* x, std::int64_t count, double* parts, bool squared, int blocks) {
  __shared__ double sums[kSumThreads];
  const double* wide = reinterpret_cast<const double*>(x);
  double sum = 0;
  for (std::int64_t n = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x; n < count;
       n += std::int64_t{blocks} * kSumThreads) {
    sum += squared ? static_cast<double>(x[n]) * static_cast<double>(x[n]) : wide[n];
  }
  sums[threadIdx.x] = sum;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = sums[0];
}

}  // namespace

void adamw(CudaExecutor& executor, const backend::AdamWProblem& p) {
  expect_no_f64("adamw", p.weight);
  const double c1 = 1 - std::pow(p.beta1, static_cast<double>(p.step));
  const double c2 = 1 - std::pow(p.beta2, static_cast<double>(p.step));
  const auto number = [](double x) { return static_cast<float>(x); };
  for_elements(executor, p.weight.count(),
               AdamW{.weight = floats(p.weight),
                     .first = floats(p.first),
                     .second = floats(p.second),
                     .gradient = floats(p.gradient),
                     .factor = number(p.gradient_factor),
                     .rate = number(p.rate / c1),
                     .root = number(1 / std::sqrt(c2)),
                     .keep = number(1 - p.rate * p.decay),
                     // 1 - beta is rounded by itself: taken from an f32 beta it would lose the digits that beta has in
                     // common with 1.
                     .fresh1 = number(1 - p.beta1),
                     .b2 = number(p.beta2),
                     .fresh2 = number(1 - p.beta2),
                     .epsilon = number(p.epsilon)});
}

void sum_of_squares(CudaExecutor& executor, const ConstTensorView& x, const TensorView& sum) {
  expect_no_f64("sum_of_squares", x);
  const std::int64_t count = x.count();
  const auto blocks = static_cast<int>(std::clamp<std::int64_t>(count / (4 * kSumThreads), 1, kSumBlocks));
  auto* to = static_cast<double*>(sum.data());
  double* parts = blocks == 1 ? to : executor.workspace<double>(Workspace::sums, kSumBlocks);
  executor.launch(squares_kernel, blocks, kSumThreads, floats(x), count, parts, true, blocks);
  if (blocks == 1) return;
  executor.launch(squares_kernel, 1, kSumThreads, reinterpret_cast<const float*>(parts), std::int64_t{blocks}, to,
                  false, 1);
}

}  // namespace polyhead::cuda
