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
__device__ inline float gelu_slope(float x) {
  const float s = sigmoid(gelu_argument(x)), du = kTwiceRoot * fmaf(3 * kCubic, x * x, 1.0f);
  return s * fmaf(x * du, 1 - s, 1.0f);
}

struct Gelu {
  const float* a;
  float* y;
  __device__ void operator()(std::int64_t n) const { y[n] = a[n] * sigmoid(gelu_argument(a[n])); }
};
struct GeluBackward {
  const float *a, *b;
  float* y;
  __device__ void operator()(std::int64_t n) const { y[n] = b[n] * gelu_slope(a[n]); }
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
struct Scale {
  const float* a;
  float *y, factor;
  __device__ void operator()(std::int64_t n) const { y[n] = factor * a[n]; }
};
struct Softcap {
  const float* a;
  float *y, factor;
  __device__ void operator()(std::int64_t n) const { y[n] = factor * tanhf(a[n] / factor); }
};
// 1 - tanh^2 z = 4 e / (1 + e)^2 with e = e^-2|z|, which does not cancel.
struct SoftcapBackward {
  const float *a, *b;
  float *y, factor;
  __device__ void operator()(std::int64_t n) const {
    const float z = a[n] / factor, e = expf(-2 * fabsf(z));
    y[n] = b[n] * (4 * e / ((1 + e) * (1 + e)));
  }
};

// f of a gate's first half and its slope.
struct Silu {
  __device__ static float2 at(float a) {
    const float s = sigmoid(a);
    return {a * s, s * fmaf(a, 1 - s, 1.0f)};
  }
};
struct TanhGelu {
  __device__ static float2 at(float a) { return {a * sigmoid(gelu_argument(a)), gelu_slope(a)}; }
};
template <class F>
struct GateOf {
  const float* x;
  float* y;
  std::int64_t width;
  __device__ void operator()(std::int64_t n) const {
    const float *a = x + n / width * 2 * width + n % width, *b = a + width;
    y[n] = F::at(*a).x * *b;
  }
};
template <class F>
struct GateBackward {
  const float *x, *dy;
  float* dx;
  std::int64_t width;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t at = n / width * 2 * width + n % width;
    const float up = dy[n];
    const float2 f = F::at(x[at]);
    dx[at] = up * x[at + width] * f.y;
    dx[at + width] = up * f.x;
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
  const auto factor = static_cast<float>(p.factor);
  switch (p.op) {
    case backend::Elementwise::gelu: return for_elements(executor, count, Gelu{floats(p.a), floats(p.y)});
    case backend::Elementwise::gelu_backward:
      return for_elements(executor, count, GeluBackward{floats(p.a), floats(p.b), floats(p.y)});
    case backend::Elementwise::erf_gelu: return for_elements(executor, count, ErfGelu{floats(p.a), floats(p.y)});
    case backend::Elementwise::erf_gelu_backward:
      return for_elements(executor, count, ErfGeluBackward{floats(p.a), floats(p.b), floats(p.y)});
    case backend::Elementwise::add: return for_elements(executor, count, Add{floats(p.a), floats(p.b), floats(p.y)});
    case backend::Elementwise::scale: return for_elements(executor, count, Scale{floats(p.a), floats(p.y), factor});
    case backend::Elementwise::softcap: return for_elements(executor, count, Softcap{floats(p.a), floats(p.y), factor});
    case backend::Elementwise::softcap_backward:
      return for_elements(executor, count, SoftcapBackward{floats(p.a), floats(p.b), floats(p.y), factor});
  }
}

void gate(CudaExecutor& executor, backend::Gate kind, const ConstTensorView& x, const TensorView& y) {
  expect_no_f64("gate", x);
  kind == backend::Gate::silu ? for_elements(executor, y.count(), GateOf<Silu>{floats(x), floats(y), y.shape(1)})
                              : for_elements(executor, y.count(), GateOf<TanhGelu>{floats(x), floats(y), y.shape(1)});
}
void gate_backward(CudaExecutor& executor, backend::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx) {
  expect_no_f64("gate_backward", x);
  kind == backend::Gate::silu
      ? for_elements(executor, dy.count(), GateBackward<Silu>{floats(x), floats(dy), floats(dx), dy.shape(1)})
      : for_elements(executor, dy.count(), GateBackward<TanhGelu>{floats(x), floats(dy), floats(dx), dy.shape(1)});
}

void add_row(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  expect_no_f64("add_row", x);
  for_elements(executor, x.count(), AddRow{floats(x), floats(row), floats(y), x.shape(1)});
}

}  // namespace polyhead::cuda
