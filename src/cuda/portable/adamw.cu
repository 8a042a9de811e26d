// AdamW, f32: one pass over weight, both moments and gradient of all tensors, dozens of them in one launch.
#include <algorithm>
#include <cmath>

#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

// A block of threads takes one piece of one tensor, which it finds in the kernel's parameters.
constexpr int kThreads = 256, kPiece = 16 * kThreads, kTensors = 48;
template <class Tensor>
struct Pieces {
  Tensor tensors[kTensors] = {};
  std::int64_t counts[kTensors] = {};
  int first[kTensors + 1] = {};  // pieces before those of a tensor
  int used = 0;

  void add(const Tensor& tensor, std::int64_t count) {
    tensors[used] = tensor;
    counts[used] = count;
    first[used + 1] = first[used] + static_cast<int>((count + kPiece - 1) / kPiece);
    ++used;
  }
  __device__ int tensor_of(int piece) const {
    int low = 0;
    for (int high = used; high - low > 1;) {
      const int middle = (low + high) / 2;
      (first[middle] <= piece ? low : high) = middle;
    }
    return low;
  }
};

// act(n) for this thread's elements of tensor `which` in the block's piece.
template <class Tensor, class Act>
__device__ void for_piece(const Pieces<Tensor>& pieces, int which, const Act& act) {
  const std::int64_t begin = std::int64_t{static_cast<int>(blockIdx.x) - pieces.first[which]} * kPiece;
  const std::int64_t end = min(begin + kPiece, pieces.counts[which]);
  for (std::int64_t n = begin + threadIdx.x; n < end; n += kThreads) act(n);
}

struct Moments {
  float *weight = nullptr, *first = nullptr, *second = nullptr;
  const float* gradient = nullptr;
  float keep = 1;
};
struct Rule {
  float factor, rate, root, fresh1, b2, fresh2, epsilon;
};

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const __grid_constant__ Pieces<Moments> pieces, const Rule rule) {
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
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = x;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

// A block writes the sum of its piece to parts [pieces]; then a block per tensor adds up the parts of that tensor.
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const __grid_constant__ Pieces<const float*> pieces, double* parts) {
  const int which = pieces.tensor_of(static_cast<int>(blockIdx.x));
  double sum = 0;
  for_piece(pieces, which, [&](std::int64_t n) {
    const auto x = static_cast<double>(pieces.tensors[which][n]);
    sum += x * x;
  });
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
__global__ void __launch_bounds__(kThreads)
    add_squares_kernel(const __grid_constant__ Pieces<const float*> pieces, const double* parts, double* sums) {
  double sum = 0;
  const int end = pieces.first[blockIdx.x + 1];
  for (int n = pieces.first[blockIdx.x] + static_cast<int>(threadIdx.x); n < end; n += kThreads) sum += parts[n];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// launch(pieces, tensors before these) for as many tensors at a time as a launch has room for; add(pieces, n) adds one.
template <class Tensor, class Add, class Launch>
void for_all(std::size_t count, const Add& add, const Launch& launch) {
  for (std::size_t begin = 0; begin < count; begin += kTensors) {
    Pieces<Tensor> pieces;
    for (std::size_t n = begin; n < std::min(count, begin + kTensors); ++n) add(pieces, n);
    launch(pieces, begin);
  }
}

}  // namespace

void adamw(CudaExecutor& executor, const backend::AdamWProblem& p) {
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
  for_all<Moments>(
      p.tensors.size(),
      [&](Pieces<Moments>& pieces, std::size_t n) {
        const backend::AdamWTensor& t = p.tensors[n];
        pieces.add({floats(t.weight), floats(t.first), floats(t.second), floats(t.gradient),
                    number(t.decays ? 1 - p.rate * p.decay : 1)},
                   t.weight.count());
      },
      [&](const Pieces<Moments>& pieces, std::size_t) {
        executor.launch(adamw_kernel, pieces.first[pieces.used], kThreads, pieces, rule);
      });
}

void sums_of_squares(CudaExecutor& executor, std::span<const ConstTensorView> tensors, const TensorView& sums) {
  expect_no_f64("sums_of_squares", tensors[0]);
  for_all<const float*>(
      tensors.size(),
      [&](Pieces<const float*>& pieces, std::size_t n) { pieces.add(floats(tensors[n]), tensors[n].count()); },
      [&](const Pieces<const float*>& pieces, std::size_t begin) {
        auto* parts = executor.workspace<double>(Workspace::sums, pieces.first[pieces.used] + 1);
        executor.launch(squares_kernel, pieces.first[pieces.used], kThreads, pieces, parts);
        executor.launch(add_squares_kernel, pieces.used, kThreads, pieces, parts,
                        static_cast<double*>(sums.data()) + begin);
      });
}

}  // namespace polyhead::cuda
