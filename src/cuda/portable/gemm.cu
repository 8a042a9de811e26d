// Products: of few rows by gemv.cu; else by cuBLASLt where it can be loaded, or by a kernel of our own, in f32. Packing
// has nothing to gain here.
#include <utility>

#include "cuda/cublas_lt.h"
#include "cuda/kernels.h"
#include "cuda/portable/arguments.h"
#include "cuda/portable/column_sums.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

constexpr int kBlock = 64, kDepth = 16;  // a block has 64 x 64 of C, and 16 of K at a time; a thread 4 x 4

// to [kDepth][kBlock] = a tile of a matrix [lines][K], transposed; neighbouring threads read along the axis of
// stride 1.
__device__ inline void load_tile(float (&to)[kDepth][kBlock + 1], const Strided& m, int line_axis, std::int64_t line0,
                                 std::int64_t lines, std::int64_t k0, std::int64_t K) {
  const std::int64_t line_step = m.stride[line_axis], k_step = m.stride[1 - line_axis];
  const bool along_k = k_step == 1;
  for (int n = threadIdx.x; n < kDepth * kBlock; n += 256) {
    const int k = along_k ? n % kDepth : n / kBlock, line = along_k ? n / kDepth : n % kBlock;
    const bool inside = line0 + line < lines && k0 + k < K;
    to[k][line] = inside ? load(m.data, m.dtype, (line0 + line) * line_step + (k0 + k) * k_step) : 0.0f;
  }
}

__global__ void __launch_bounds__(256)
    gemm_kernel(const __grid_constant__ Strided a, const __grid_constant__ Strided b, const void* bias,
                const void* plus, const __grid_constant__ Strided c, std::int64_t M, std::int64_t N, std::int64_t K) {
  __shared__ float rows[kDepth][kBlock + 1], columns[kDepth][kBlock + 1];
  const std::int64_t across = (N + kBlock - 1) / kBlock;
  const std::int64_t m0 = blockIdx.x / across * kBlock, n0 = blockIdx.x % across * kBlock;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sums[4][4] = {};
  for (std::int64_t k0 = 0; k0 < K; k0 += kDepth) {
    load_tile(rows, a, 0, m0, M, k0, K);
    load_tile(columns, b, 1, n0, N, k0, K);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int s = 0; s < 4; ++s) sums[r][s] = fmaf(rows[k][4 * ty + r], columns[k][tx + 16 * s], sums[r][s]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const std::int64_t m = m0 + 4 * ty + r, n = n0 + tx + 16 * s;
      if (m >= M || n >= N) continue;
      const std::int64_t at = m * c.stride[0] + n;
      const float more = plus != nullptr ? load(plus, c.dtype, at) : 0.0f;
      store(c.data, c.dtype, at, sums[r][s] + (bias != nullptr ? load(bias, c.dtype, n) : 0.0f) + more);
    }
  }
}

// A matrix of 16 bits beside one of f32, for a library that multiplies matrices of one type: widened, row-major.
ConstTensorView widened(CudaExecutor& executor, const ConstTensorView& b) {
  const bool transposed = b.stride(1) != 1;
  const ConstTensorView rows = transposed ? b.transpose(0, 1) : b;
  const TensorView wide(executor.workspace<float>(Workspace::widened, b.count()), DType::f32, rows.shape(),
                        contiguous_strides(rows.shape()), executor.device());
  copy(executor, rows, wide);
  return transposed ? wide.transpose(0, 1) : wide;
}

bool with_library(CudaExecutor& executor, const kernels::GemmProblem& p, ConstTensorView b) {
  if (executor.cublas() == nullptr || p.a.shape(1) == 0) return false;
  if (p.a.dtype() == DType::f32 && b.dtype() != DType::f32) b = widened(executor, b);
  if (p.a.dtype() != b.dtype()) return false;
  if (p.before_gelu.present() && p.c.dtype() == DType::f32) return false;  // its tanh has 18 bits
  if (p.c.dtype() != DType::f32 && p.c.dtype() != b.dtype()) return false;
  CublasLt* library = executor.cublas();
  constexpr std::int64_t kBytes = CublasLt::kWorkspaceBytes;
  const std::int64_t bias_bytes = p.c.shape(1) * static_cast<std::int64_t>(size_of(p.c.dtype()));
  auto* memory = executor.workspace<std::byte>(Workspace::product, kBytes + bias_bytes);
  const void* bias = p.bias.present() ? p.bias.data() : nullptr;
  if (reinterpret_cast<std::uintptr_t>(bias) % 16 != 0) {  // a slice: in place, all operands would count as unaligned
    executor.allocator()->copy(memory + kBytes, bias, static_cast<std::size_t>(bias_bytes));
    bias = memory + kBytes;
  }
  return library->multiply(
      executor.stream(), executor.precision != Precision::f32, p.a, b,
      {bias, p.plus.present() ? p.plus.data() : nullptr, p.before_gelu.present() ? p.before_gelu.data() : nullptr}, p.c,
      memory);
}

template <class N, class Out>
struct Element {
  EvenRows<N> x;
  Out rounded;  // or absent

  template <int kCount>
  __device__ auto fetch(std::int64_t row, int column) const {
    return x.template fetch<kCount>(row, column);
  }
  template <int kCount, class Fetched>
  __device__ void get(const Fetched& fetched, std::int64_t row, int column, float2 (&terms)[kCount]) const {
    float in[kCount];
    fetched.get(in);
    for (int i = 0; i < kCount; ++i) terms[i] = {in[i], 0};
    if (rounded.present()) rounded.set(row * x.stride + column, in);
  }
};

}  // namespace

void gemm(CudaExecutor& executor, const kernels::GemmProblem& p) {
  expect_no_f64("linear", p.c);
  const std::int64_t M = p.c.shape(0), N = p.c.shape(1);
  if (M == 0 || N == 0) return;
  const ConstTensorView b = p.packed != nullptr ? p.packed->strips.view() : p.b;
  if (!p.before_gelu.present() &&
      gemv(executor, {.x = p.a, .weight = b.transpose(0, 1), .bias = p.bias, .plus = p.plus, .y = p.c})) {
    return;
  }
  if (with_library(executor, p, b)) return;
  if (p.before_gelu.present()) {
    kernels::GemmProblem product = p;
    product.c = std::exchange(product.before_gelu, {});
    gemm(executor, product);
    return elementwise(executor, {kernels::Elementwise::gelu, product.c, {}, p.c});
  }
  executor.launch(gemm_kernel, (M + kBlock - 1) / kBlock * ((N + kBlock - 1) / kBlock), 256, Strided(p.a), Strided(b),
                  p.bias.present() ? p.bias.data() : nullptr, p.plus.present() ? p.plus.data() : nullptr, Strided(p.c),
                  M, N, p.a.shape(1));
}

kernels::PackedMatrix pack(CudaExecutor& executor, const ConstTensorView& b, kernels::Products products) {
  const bool rounds = products == kernels::Products::coarse && b.dtype() == DType::f32;
  kernels::PackedMatrix packed{Tensor::empty(b.shape(), rounds ? DType::bf16 : b.dtype(), executor.allocator())};
  copy(executor, b, packed.strips);
  return packed;
}

void column_sums(CudaExecutor& executor, const ConstTensorView& x, const TensorView& sums, const TensorView& rounded) {
  expect_no_f64("column_sums", x);
  const auto sum = [&](const auto& numbers, const auto& out) {
    sum_columns(executor, x.shape(0), x.shape(1),
                numbers.template is_aligned_for<4>() && out.template is_aligned_for<4>() && x.stride(0) % 4 == 0,
                Element<std::decay_t<decltype(numbers)>, std::decay_t<decltype(out)>>{{numbers, x.stride(0)}, out},
                sums, {});
  };
  if (rounded.present() && rounded.dtype() == DType::f16) return sum(Numbers(x), WritableNumbers(rounded));
  with_numbers_of(x, [&](const auto& numbers) { sum(numbers, WritableNumbersOf<__nv_bfloat16>(rounded)); });
}

}  // namespace polyhead::cuda
