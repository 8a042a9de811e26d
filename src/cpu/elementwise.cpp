// Ops that treat every element or every row alike, on the CPU.
#include <cmath>
#include <iterator>
#include <numbers>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/elementwise.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V exp_of_nonpositive(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<D, Tag<T>>) {
    return exp_nonpositive<T>(x);
  } else {
    return hn::Exp(d, at_least(hn::Set(d, static_cast<T>(-80)), x));
  }
}

// 1 / (1 + e^-z), from e^-|z| so that nothing overflows.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V z) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1});
  const V e = exp_of_nonpositive(d, hn::Neg(hn::Abs(z)));
  const V small = hn::Div(e, hn::Add(one, e));  // of -|z|
  return hn::IfThenElse(hn::Lt(z, hn::Zero(d)), small, hn::Sub(one, small));
}

// GELU is x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3), since 1 + tanh u = 2 sigmoid(2 u).
constexpr double kTwiceRoot = 1.5957691216057308, kCubic = 0.044715;

template <class D, class V>
HWY_INLINE V gelu_argument(D d, V x) {
  using T = hn::TFromD<D>;
  const V square = hn::Mul(x, x);
  return hn::Mul(hn::Mul(hn::Set(d, static_cast<T>(kTwiceRoot)), x),
                 hn::MulAdd(hn::Set(d, static_cast<T>(kCubic)), square, hn::Set(d, T{1})));
}

template <class D, class V>
HWY_INLINE V gelu_slope(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), s = sigmoid(d, gelu_argument(d, x));
  const V du = hn::Mul(hn::Set(d, static_cast<T>(kTwiceRoot)),
                       hn::MulAdd(hn::Set(d, static_cast<T>(3 * kCubic)), hn::Mul(x, x), one));
  return hn::Mul(s, hn::MulAdd(hn::Mul(x, du), hn::Sub(one, s), one));
}

// P(t) t e^(-x^2/2) with t = 1 / (1 + |x| / sqrt 8) is erfc(|x| / sqrt 2) / 2, the share of the normal distribution
// beyond |x|. P is a Chebyshev fit up to |x| = 10, exact to 1.4e-8; its highest power is first.
constexpr float kTail[] = {-0.0278393462f, 0.133987762f, -0.22631701f, 0.119091306f, 0.000597408174f,
                           0.0953527749f,  0.123103637f, 0.140967099f, 0.141056356f};

// That share, given e = e^(-x^2/2).
template <class D, class V>
HWY_INLINE V tail_of(D d, V x, V e) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<T, double>) {
    HWY_ALIGN double lanes[hn::MaxLanes(d)];
    hn::Store(x, d, lanes);
    for (double& lane : lanes) lane = std::erfc(std::abs(lane) / std::numbers::sqrt2) / 2;
    return hn::Load(d, lanes);
  } else {
    const V one = hn::Set(d, T{1});
    const V t = hn::Div(one, hn::MulAdd(hn::Set(d, static_cast<T>(0.353553391)), hn::Abs(x), one));
    V p = hn::Set(d, kTail[0]);
    for (std::size_t n = 1; n < std::size(kTail); ++n) p = hn::MulAdd(p, t, hn::Set(d, kTail[n]));
    return hn::Mul(hn::Mul(p, t), e);
  }
}

// The share of the normal distribution below x, and its density e^(-x^2/2) before it is divided by sqrt(2 pi).
template <class V>
struct Normal {
  V below, density;
};
template <class D, class V>
HWY_INLINE Normal<V> normal_at(D d, V x) {
  using T = hn::TFromD<D>;
  const V density = exp_of_nonpositive(d, hn::Mul(hn::Set(d, T{-0.5}), hn::Mul(x, x)));
  const V tail = tail_of(d, x, density);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, T{1}), tail)), density};
}

// tanh_of for a whole vector, or for the one lane in which the last columns of a row come.
template <class V>
struct TanhAt {
  V value, slope;
};
template <class D, class V>
HWY_INLINE TanhAt<V> tanh_at(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<D, Tag<T>>) {
    const Tanh<T> t = tanh_of<T>(x);
    return {t.value, t.slope};
  } else {
    const Tanh<T> t = tanh_of<T>(hn::Set(Tag<T>(), hn::GetLane(x)));
    return {hn::Set(d, hn::GetLane(t.value)), hn::Set(d, hn::GetLane(t.slope))};
  }
}

// f(a), and its slope.
template <class V>
struct Gated {
  V value, slope;
};
template <class D, class V>
HWY_INLINE Gated<V> gated(D d, V a, kernels::Gate kind) {
  const V one = hn::Set(d, hn::TFromD<D>{1});
  if (kind == kernels::Gate::gelu) return {hn::Mul(a, sigmoid(d, gelu_argument(d, a))), gelu_slope(d, a)};
  const V s = sigmoid(d, a);
  return {hn::Mul(a, s), hn::Mul(s, hn::MulAdd(a, hn::Sub(one, s), one))};
}

// what(tag, index) for all `count` elements of a tensor, a vector or a single element at a time.
template <class T, class What>
void for_elements(Team& team, std::int64_t count, const What& what) {
  constexpr std::int64_t kRow = 4096;
  const RowBlocks blocks((count + kRow - 1) / kRow, kRow);
  for_blocks(team, blocks, [&](std::int64_t block) {
    const auto begin = static_cast<std::size_t>(blocks.begin(block) * kRow);
    const auto end = static_cast<std::size_t>(std::min(count, blocks.end(block) * kRow));
    for_columns<T>(end - begin, [&](auto d, std::size_t c) { what(d, begin + c); });
  });
}

template <class T>
void elementwise_as(Team& team, const kernels::ElementwiseProblem& problem) {
  using kernels::Elementwise;
  const T *a = data_of<T>(problem.a), *b = data_of<T>(problem.b);
  T* y = data_of<T>(problem.y);
  const T factor = static_cast<T>(problem.factor);
  const auto each = [&](const auto& of) {
    for_elements<T>(team, problem.a.count(), [&](auto d, std::size_t at) { hn::StoreU(of(d, at), d, y + at); });
  };
  switch (problem.op) {
    case Elementwise::gelu:
      return each([&](auto d, std::size_t at) {
        const auto x = hn::LoadU(d, a + at);
        return hn::Mul(x, sigmoid(d, gelu_argument(d, x)));
      });
    case Elementwise::gelu_backward:
      return each(
          [&](auto d, std::size_t at) { return hn::Mul(hn::LoadU(d, b + at), gelu_slope(d, hn::LoadU(d, a + at))); });
    case Elementwise::erf_gelu:
      return each([&](auto d, std::size_t at) {
        const auto x = hn::LoadU(d, a + at);
        return hn::Mul(x, normal_at(d, x).below);
      });
    case Elementwise::erf_gelu_backward:
      return each([&](auto d, std::size_t at) {
        const auto x = hn::LoadU(d, a + at);
        const auto normal = normal_at(d, x);
        const auto density = hn::Mul(hn::Set(d, static_cast<T>(0.3989422804014327)), normal.density);
        return hn::Mul(hn::LoadU(d, b + at), hn::MulAdd(x, density, normal.below));
      });
    case Elementwise::add:
      return each([&](auto d, std::size_t at) { return hn::Add(hn::LoadU(d, a + at), hn::LoadU(d, b + at)); });
    case Elementwise::scale:
      return each([&](auto d, std::size_t at) { return hn::Mul(hn::Set(d, factor), hn::LoadU(d, a + at)); });
    case Elementwise::softcap:
      return each([&](auto d, std::size_t at) {
        const auto t = tanh_at(d, hn::Div(hn::LoadU(d, a + at), hn::Set(d, factor)));
        return hn::Mul(hn::Set(d, factor), t.value);
      });
    case Elementwise::softcap_backward:
      return each([&](auto d, std::size_t at) {
        const auto t = tanh_at(d, hn::Div(hn::LoadU(d, a + at), hn::Set(d, factor)));
        return hn::Mul(hn::LoadU(d, b + at), t.slope);
      });
  }
}

template <class T>
void gate_as(Team& team, kernels::Gate kind, const ConstTensorView& x, const TensorView& y) {
  const auto F = static_cast<std::size_t>(y.shape(1));
  for_rows(team, RowBlocks(y.shape(0), y.shape(1)), [&](std::int64_t row) {
    const T *a = data_of<T>(x) + static_cast<std::size_t>(row) * 2 * F, *b = a + F;
    T* out = data_of<T>(y) + static_cast<std::size_t>(row) * F;
    for_columns<T>(F, [&](auto d, std::size_t c) {
      hn::StoreU(hn::Mul(gated(d, hn::LoadU(d, a + c), kind).value, hn::LoadU(d, b + c)), d, out + c);
    });
  });
}
template <class T>
void gate_backward_as(Team& team, kernels::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                      const TensorView& dx) {
  const auto F = static_cast<std::size_t>(dy.shape(1));
  for_rows(team, RowBlocks(dy.shape(0), dy.shape(1)), [&](std::int64_t row) {
    const T *a = data_of<T>(x) + static_cast<std::size_t>(row) * 2 * F, *b = a + F;
    const T* up = data_of<T>(dy) + static_cast<std::size_t>(row) * F;
    T *da = data_of<T>(dx) + static_cast<std::size_t>(row) * 2 * F, *db = da + F;
    for_columns<T>(F, [&](auto d, std::size_t c) {
      const auto gradient = hn::LoadU(d, up + c);
      const auto f = gated(d, hn::LoadU(d, a + c), kind);
      hn::StoreU(hn::Mul(hn::Mul(gradient, hn::LoadU(d, b + c)), f.slope), d, da + c);
      hn::StoreU(hn::Mul(gradient, f.value), d, db + c);
    });
  });
}

template <class T>
void add_row_as(Team& team, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  const auto C = static_cast<std::size_t>(x.shape(1));
  for_rows(team, RowBlocks(x.shape(0), x.shape(1)), [&](std::int64_t m) {
    const T *in = data_of<T>(x) + static_cast<std::size_t>(m) * C, *more = data_of<T>(row);
    T* out = data_of<T>(y) + static_cast<std::size_t>(m) * C;
    for_columns<T>(C, [&](auto d, std::size_t c) {
      hn::StoreU(hn::Add(hn::LoadU(d, in + c), hn::LoadU(d, more + c)), d, out + c);
    });
  });
}

void elementwise(Team& team, const kernels::ElementwiseProblem& problem) {
  problem.a.dtype() == DType::f64 ? elementwise_as<double>(team, problem) : elementwise_as<float>(team, problem);
}
void gate(Team& team, kernels::Gate kind, const ConstTensorView& x, const TensorView& y) {
  x.dtype() == DType::f64 ? gate_as<double>(team, kind, x, y) : gate_as<float>(team, kind, x, y);
}
void gate_backward(Team& team, kernels::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx) {
  x.dtype() == DType::f64 ? gate_backward_as<double>(team, kind, x, dy, dx)
                          : gate_backward_as<float>(team, kind, x, dy, dx);
}
void add_row(Team& team, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  x.dtype() == DType::f64 ? add_row_as<double>(team, x, row, y) : add_row_as<float>(team, x, row, y);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(elementwise);
HWY_EXPORT(gate);
HWY_EXPORT(gate_backward);
HWY_EXPORT(add_row);

void elementwise(Team& team, const kernels::ElementwiseProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(elementwise)(team, problem);
  if (problem.sums.present()) column_sums(team, problem.y, problem.sums);
}
void gate(Team& team, kernels::Gate kind, const ConstTensorView& x, const TensorView& y) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(gate)(team, kind, x, y);
}
void gate_backward(Team& team, kernels::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(gate_backward)(team, kind, x, dy, dx);
}
void add_row(Team& team, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(add_row)(team, x, row, y);
}

}  // namespace polyhead::cpu
#endif
