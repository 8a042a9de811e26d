// AdamW, f32: one pass over weight, both moments and gradient of all tensors, dozens of them in one launch.
#include <cmath>

#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/pieces.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct Moments {
  float *weight = nullptr, *first = nullptr, *second = nullptr;
  const float* gradient = nullptr;
  float keep = 1;
};
struct Rule {
  float factor, rate, root, fresh1, b2, fresh2, epsilon;
};

__global__ void __launch_bounds__(kPieceThreads)
    adamw_kernel(const __grid_constant__ Pieces<Moments> pieces, const Rule rule) {
  begin_in_stream_order();
  const int which = pieces.tensor_of(static_cast<int>(blockIdx.x));
  const Moments& t = pieces.tensors[which];
  for_piece(pieces, which, [&](std::int64_t n) {
    const float g = rule.factor * t.gradient[n], m = fmaf(rule.fresh1, g - t.first[n], t.first[n]);
    const float v = fmaf(rule.b2, t.second[n], rule.fresh2 * g * g);
    t.first[n] = m;
    t.second[n] = v;
    t.weight[n] = fmaf(t.weight[n], t.keep, -(rule.rate * m / fmaf(sqrtf(v), rule.root, rule.epsilon)));
  });
}

// The sum over a block of threads, in thread 0.
__device__ inline double sum_of_block(double x) {
  __shared__ double sums[kPieceThreads];
  sums[threadIdx.x] = x;
  for (int half = kPieceThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

// A block writes the sum of its piece to parts [pieces]; then a block per tensor adds up the parts of that tensor.
__global__ void __launch_bounds__(kPieceThreads)
    squares_kernel(const __grid_constant__ Pieces<const float*> pieces, double* parts) {
  begin_in_stream_order();
  const int which = pieces.tensor_of(static_cast<int>(blockIdx.x));
  double sum = 0;
  for_piece(pieces, which, [&](std::int64_t n) {
    const auto x = static_cast<double>(pieces.tensors[which][n]);
    sum += x * x;
  });
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
__global__ void __launch_bounds__(kPieceThreads)
    add_squares_kernel(const __grid_constant__ Pieces<const float*> pieces, const double* parts, double* sums) {
  begin_in_stream_order();
  double sum = 0;
  const int end = pieces.first[blockIdx.x + 1];
  for (int n = pieces.first[blockIdx.x] + static_cast<int>(threadIdx.x); n < end; n += kPieceThreads) sum += parts[n];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

void adamw(CudaExecutor& executor, const kernels::AdamWProblem& p) {
  expect_no_f64("adamw", p.tensors[0].weight);
  const double c1 = 1 - std::pow(p.beta1, static_cast<double>(p.step));
  const double c2 = 1 - std::pow(p.beta2, static_cast<double>(p.step));
  const auto number = [](double x) { return static_cast<float>(x); };
  const Rule rule{.factor = number(p.gradient_factor),
                  .rate = number(p.rate / c1),
                  .root = number(1 / std::sqrt(c2)),
                  // 1 - beta is formed in double: from a beta rounded to f32 it would lose more digits the nearer beta
                  // is to 1.
                  .fresh1 = number(1 - p.beta1),
                  .b2 = number(p.beta2),
                  .fresh2 = number(1 - p.beta2),
                  .epsilon = number(p.epsilon)};
  for_all_pieces<Moments>(
      p.tensors.size(),
      [&](Pieces<Moments>& pieces, std::size_t n) {
        const kernels::AdamWTensor& t = p.tensors[n];
        pieces.add({floats(t.weight), floats(t.first), floats(t.second), floats(t.gradient),
                    number(t.decays ? 1 - p.rate * p.decay : 1)},
                   t.weight.count());
      },
      [&](const Pieces<Moments>& pieces, std::size_t) {
        executor.launch_early(adamw_kernel, pieces.first[pieces.used], kPieceThreads, 0, pieces, rule);
      });
}

void sums_of_squares(CudaExecutor& executor, std::span<const ConstTensorView> tensors, const TensorView& sums) {
  expect_no_f64("sums_of_squares", tensors[0]);
  for_all_pieces<const float*>(
      tensors.size(),
      [&](Pieces<const float*>& pieces, std::size_t n) { pieces.add(floats(tensors[n]), tensors[n].count()); },
      [&](const Pieces<const float*>& pieces, std::size_t begin) {
        auto* parts = executor.workspace<double>(Workspace::sums, pieces.first[pieces.used] + 1);
        executor.launch_early(squares_kernel, pieces.first[pieces.used], kPieceThreads, 0, pieces, parts);
        executor.launch_early(add_squares_kernel, pieces.used, kPieceThreads, 0, pieces, parts,
                              static_cast<double*>(sums.data()) + begin);
      });
}

}  // namespace polyhead::cuda
