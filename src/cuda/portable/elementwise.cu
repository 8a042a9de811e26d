// Activations and sums of elements, in f32, of tensors of f32 or 16 bits.
#include <type_traits>

#include "cuda/kernels.h"
#include "cuda/portable/activations.cuh"
#include "cuda/portable/column_sums.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

// The share of the normal distribution below x.
__device__ inline float normal_below(float x) { return 0.5f * erfcf(-0.70710678f * x); }

struct Gelu {
  __device__ float operator()(float a) const { return a * sigmoid(gelu_argument(a)); }
};
struct GeluBackward {
  __device__ float operator()(float a, float b) const { return b * gelu_slope(a); }
};
struct ErfGelu {
  __device__ float operator()(float a) const { return a * normal_below(a); }
};
struct ErfGeluBackward {
  __device__ float operator()(float a, float b) const {
    return b * fmaf(a, 0.39894228f * expf(-0.5f * a * a), normal_below(a));
  }
};
struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Scale {
  float factor;
  __device__ float operator()(float a) const { return factor * a; }
};
struct Softcap {
  float cap;
  __device__ float operator()(float a) const { return cap * tanhf(a / cap); }
};
// 1 - tanh^2 z = 4 e / (1 + e)^2 with e = e^-2|z|, which does not cancel.
struct SoftcapBackward {
  float cap;
  __device__ float operator()(float a, float b) const {
    const float e = expf(-2 * fabsf(a / cap));
    return b * (4 * e / ((1 + e) * (1 + e)));
  }
};

// y[n] = f(a[n]) or f(a[n], b[n]), of one number or of a few at a time.
template <class F>
__device__ float apply(const F& f, float a, float b) {
  if constexpr (std::is_invocable_v<F, float, float>) {
    return f(a, b);
  } else {
    return f(a);
  }
}
template <class F, int kCount>
struct Map {
  Numbers a, b;  // b is absent if f has one argument
  WritableNumbers y;
  F f;
  __device__ void operator()(std::int64_t n) const {
    float left[kCount], right[kCount] = {};
    a.get(kCount * n, left);
    if (b.present()) b.get(kCount * n, right);
#pragma unroll
    for (int i = 0; i < kCount; ++i) left[i] = apply(f, left[i], right[i]);
    y.set(kCount * n, left);
  }
};

template <class F>
void map(CudaExecutor& executor, const kernels::ElementwiseProblem& p, const F& f) {
  const Numbers a(p.a), b(p.b);
  const WritableNumbers y(p.y);
  const std::int64_t count = p.a.count();
  constexpr int kFew = 8;
  if (count % kFew != 0 || !a.is_aligned_for<kFew>() || !b.is_aligned_for<kFew>() || !y.is_aligned_for<kFew>()) {
    return for_elements(executor, count, Map<F, 1>{a, b, y, f});
  }
  for_elements(executor, count / kFew, Map<F, kFew>{a, b, y, f});
}

// The same by rows [M,C], with the sums of y's columns.
template <class F, class In, class Out>
struct MapRows {
  EvenRows<In> a, b;
  Out y;
  F f;

  template <int kCount>
  struct Fetched {
    typename In::template Fetched<kCount> a, b;
  };
  template <int kCount>
  __device__ Fetched<kCount> fetch(std::int64_t row, int column) const {
    return {a.template fetch<kCount>(row, column), b.template fetch<kCount>(row, column)};
  }
  template <int kCount>
  __device__ void get(const Fetched<kCount>& fetched, std::int64_t row, int column, float2 (&terms)[kCount]) const {
    float left[kCount], right[kCount];
    fetched.a.get(left);
    fetched.b.get(right);
    for (int i = 0; i < kCount; ++i) {
      left[i] = f(left[i], right[i]);
      terms[i] = {left[i], 0};
    }
    y.set(row * a.stride + column, left);
  }
};

template <class F>
void map_and_sum(CudaExecutor& executor, const kernels::ElementwiseProblem& p, const F& f) {
  if (!p.sums.present()) return map(executor, p, f);
  const std::int64_t C = p.a.shape(1);
  const auto sum = [&]<class In, class Out>(const In& a, const In& b, const Out& y) {
    sum_columns(executor, p.a.shape(0), C,
                a.template is_aligned_for<4>() && b.template is_aligned_for<4>() && y.template is_aligned_for<4>(),
                MapRows<F, In, Out>{{a, C}, {b, C}, y, f}, p.sums, {});
  };
  const auto all = [&](DType dtype) { return p.a.dtype() == dtype && p.b.dtype() == dtype && p.y.dtype() == dtype; };
  const auto typed = [&]<class T>(T) { sum(NumbersOf<T>(p.a), NumbersOf<T>(p.b), WritableNumbersOf<T>(p.y)); };
  if (all(DType::bf16)) return typed(__nv_bfloat16{});
  if (all(DType::f32)) return typed(float{});
  sum(Numbers(p.a), Numbers(p.b), WritableNumbers(p.y));
}

// {f(a), f'(a)} for the first half of a gate.
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
  Numbers x;
  WritableNumbers y;
  std::int64_t width;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t at = n / width * 2 * width + n % width;
    y.set(n, F::at(x[at]).x * x[at + width]);
  }
};
template <class F>
struct GateBackward {
  Numbers x, dy;
  WritableNumbers dx;
  std::int64_t width;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t at = n / width * 2 * width + n % width;
    const float up = dy[n];
    const float2 f = F::at(x[at]);
    const float b = x[at + width];
    dx.set(at, up * b * f.y);
    dx.set(at + width, up * f.x);
  }
};
struct AddRow {
  Numbers x;
  const float* row;
  WritableNumbers y;
  std::int64_t C;
  __device__ void operator()(std::int64_t n) const { y.set(n, x[n] + row[n % C]); }
};

}  // namespace

void elementwise(CudaExecutor& executor, const kernels::ElementwiseProblem& p) {
  expect_no_f64(name_of(p.op), p.a);
  const auto factor = static_cast<float>(p.factor);
  switch (p.op) {
    case kernels::Elementwise::gelu: return map(executor, p, Gelu{});
    case kernels::Elementwise::gelu_backward: return map_and_sum(executor, p, GeluBackward{});
    case kernels::Elementwise::erf_gelu: return map(executor, p, ErfGelu{});
    case kernels::Elementwise::erf_gelu_backward: return map_and_sum(executor, p, ErfGeluBackward{});
    case kernels::Elementwise::add: return map(executor, p, Add{});
    case kernels::Elementwise::scale: return map(executor, p, Scale{factor});
    case kernels::Elementwise::softcap: return map(executor, p, Softcap{factor});
    case kernels::Elementwise::softcap_backward: return map_and_sum(executor, p, SoftcapBackward{factor});
  }
}

void gate(CudaExecutor& executor, kernels::Gate kind, const ConstTensorView& x, const TensorView& y) {
  expect_no_f64("gate", x);
  kind == kernels::Gate::silu
      ? for_elements(executor, y.count(), GateOf<Silu>{Numbers(x), WritableNumbers(y), y.shape(1)})
      : for_elements(executor, y.count(), GateOf<TanhGelu>{Numbers(x), WritableNumbers(y), y.shape(1)});
}
void gate_backward(CudaExecutor& executor, kernels::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx) {
  expect_no_f64("gate_backward", x);
  kind == kernels::Gate::silu
      ? for_elements(executor, dy.count(),
                     GateBackward<Silu>{Numbers(x), Numbers(dy), WritableNumbers(dx), dy.shape(1)})
      : for_elements(executor, dy.count(),
                     GateBackward<TanhGelu>{Numbers(x), Numbers(dy), WritableNumbers(dx), dy.shape(1)});
}

void add_row(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  expect_no_f64("add_row", x);
  for_elements(executor, x.count(), AddRow{Numbers(x), floats(row), WritableNumbers(y), x.shape(1)});
}

}  // namespace polyhead::cuda
