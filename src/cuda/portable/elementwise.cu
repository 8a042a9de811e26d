// Activations and sums of elements, f32.
#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

// 1 / (1 + e^-z), from e^-|z| so that nothing overflows.
__device__ inline float sigmoid(float z) {
  const float e = expf(-fabsf(z)), small = e / (1 + e);
  return z < 0 ? small : 1 - small;
}

// GELU is x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3), since 1 + tanh u = 2 sigmoid(2 u).
constexpr float kTwiceRoot = 1.5957691216057308f, kCubic = 0.044715f;
__device__ inline float gelu_argument(float x) { return kTwiceRoot * x * fmaf(kCubic, x * x, 1.0f); }

struct Gelu {
  const float* a;
  float* y;
  __device__ void operator()(std::int64_t n) const { y[n] = a[n] * sigmoid(gelu_argument(a[n])); }
};
struct GeluBackward {
  const float *a, *b;
  float* y;
  __device__ void operator()(std::int64_t n) const {
    const float x = a[n], s = sigmoid(gelu_argument(x)), du = kTwiceRoot * fmaf(3 * kCubic, x * x, 1.0f);
    y[n] = b[n] * s * fmaf(x * du, 1 - s, 1.0f);
  }
};
// The share of the normal distribution below x.
__device__ inline float normal_below(float x) { return 0.5f * erfcf(-0.70710678f * x); }

struct ErfGelu {
  const float* a;
  float* y;
  __device__ void operator()(std::int64_t n) const { y[n] = a[n] * normal_below(a[n]); }
};
struct ErfGeluBackward {
  const float *a, *b;
  float* y;
  __device__ void operator()(std::int64_t n) const {
    const float x = a[n];
    y[n] = b[n] * fmaf(x, 0.39894228f * expf(-0.5f * x * x), normal_below(x));
  }
};
struct Add {
  const float *a, *b;
  float* y;
  __device__ void operator()(std::int64_t n) const { y[n] = a[n] + b[n]; }
};
struct SiluGate {
  const float* x;
  float* y;
  std::int64_t F;
  __device__ void operator()(std::int64_t n) const {
    const float *a = x + n / F * 2 * F + n % F, *b = a + F;
    y[n] = *a * sigmoid(*a) * *b;
  }
};
struct SiluGateBackward {
  const float *x, *dy;
  float* dx;
  std::int64_t F;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t at = n / F * 2 * F + n % F;
    const float a = x[at], b = x[at + F], up = dy[n], s = sigmoid(a);
    dx[at] = up * b * s * fmaf(a, 1 - s, 1.0f);
    dx[at + F] = up * a * s;
  }
};
struct AddRow {
  const float *x, *row;
  float* y;
  std::int64_t C;
  __device__ void operator()(std::int64_t n) const { y[n] = x[n] + row[n % C]; }
};

}  // namespace

void elementwise(CudaExecutor& executor, const backend::ElementwiseProblem& p) {
  expect_no_f64(name_of(p.op), p.a);
  const std::int64_t count = p.a.count();
  switch (p.op) {
    case backend::Elementwise::gelu: return for_elements(executor, count, Gelu{floats(p.a), floats(p.y)});
    case backend::Elementwise::gelu_backward:
      return for_elements(executor, count, GeluBackward{floats(p.a), floats(p.b), floats(p.y)});
    case backend::Elementwise::erf_gelu: return for_elements(executor, count, ErfGelu{floats(p.a), floats(p.y)});
    case backend::Elementwise::erf_gelu_backward:
      return for_elements(executor, count, ErfGeluBackward{floats(p.a), floats(p.b), floats(p.y)});
    case backend::Elementwise::add: return for_elements(executor, count, Add{floats(p.a), floats(p.b), floats(p.y)});
  }
}

void silu_gate(CudaExecutor& executor, const ConstTensorView& x, const TensorView& y) {
  expect_no_f64("silu_gate", x);
  for_elements(executor, y.count(), SiluGate{floats(x), floats(y), y.shape(1)});
}
void silu_gate_backward(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& dy,
                        const TensorView& dx) {
  expect_no_f64("silu_gate_backward", x);
  for_elements(executor, dy.count(), SiluGateBackward{floats(x), floats(dy), floats(dx), dy.shape(1)});
}

void add_row(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  expect_no_f64("add_row", x);
  for_elements(executor, x.count(), AddRow{floats(x), floats(row), floats(y), x.shape(1)});
}

}  // namespace polyhead::cuda
