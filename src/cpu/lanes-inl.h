// Vector building blocks: tags, exp, conversion between storage types and the type we compute in.
#if defined(POLYHEAD_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_LANES_INL_H_
#undef POLYHEAD_CPU_LANES_INL_H_
#else
#define POLYHEAD_CPU_LANES_INL_H_
#endif

#include <hwy/highway.h>

// The place of our target for pairs of bf16, which is AVX3_DL and the instructions of pairs-inl.h.
#if HWY_TARGET == HWY_AVX3_DL
#include <immintrin.h>
#undef HWY_TARGET_STR
#ifdef HWY_TARGET_STR_AVX3_DL  // later than Highway 1.0.3; what its functions are compiled for must be among ours
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3_DL ",avx512bf16"
#else
#define HWY_TARGET_STR \
  HWY_TARGET_STR_AVX3  \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg,avx512vpopcntdq,avx512bf16"
#endif
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hwy/contrib/math/math-inl.h"
#include "polyhead/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// T is float (for f32, f16 and bf16 storage) or double (for f64).
template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
template <class T>
inline constexpr std::size_t kLanes = HWY_LANES(T);
// The number of columns rounded up to whole vectors.
template <class T>
constexpr std::size_t padded(std::size_t columns) {
  return (columns + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}
template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

// first, first + 1, ... in the lanes. Highway's Iota writes them one by one and waits for the stores to read them back.
template <class D>
HWY_INLINE hn::Vec<D> count_from(D d, hn::TFromD<D> first) {
  struct Steps {
    alignas(64) hn::TFromD<D> of[HWY_LANES(hn::TFromD<D>)] = {};
    constexpr Steps() {
      for (std::size_t i = 0; i < HWY_LANES(hn::TFromD<D>); ++i) of[i] = static_cast<hn::TFromD<D>>(i);
    }
  };
  static constexpr Steps kSteps;
  return hn::Add(hn::Set(d, first), hn::Load(d, kSteps.of));
}

// Highway's Exp, Log and Tanh turn NaN into ordinary numbers. These keep it.
template <class T>
HWY_INLINE Vec<T> or_nan(Vec<T> x, Vec<T> result) {
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}
template <class T>
HWY_INLINE Vec<T> exp_of(Vec<T> x) {
  return or_nan<T>(x, hn::Exp(Tag<T>(), x));
}
template <class T>
HWY_INLINE Vec<T> log_of(Vec<T> x) {
  return or_nan<T>(x, hn::Log(Tag<T>(), x));
}

// tanh x and its derivative, each exact to its own last places: 1 - tanh^2 would cancel where tanh is nearly 1. With
// y = e^2|x| - 1, tanh |x| = y / (y + 2) and 1 - tanh |x| = 2 / (y + 2).
template <class T>
struct Tanh {
  Vec<T> value, slope;
};
template <class T>
HWY_INLINE Tanh<T> tanh_of(Vec<T> x) {
  const Tag<T> d;
  const Vec<T> most = hn::Set(d, T{40}), two = hn::Set(d, T{2});  // beyond, tanh is 1 in any type
  const Vec<T> y = hn::Expm1(d, hn::Min(most, hn::Abs(hn::Add(x, x))));
  const Vec<T> one = hn::Set(d, T{1}), rest = hn::Div(one, hn::Add(y, two));
  const Vec<T> value = hn::IfThenElse(hn::Gt(y, two), hn::NegMulAdd(two, rest, one), hn::Mul(y, rest));
  const Vec<T> slope = hn::Mul(hn::Mul(two, rest), hn::Add(one, value));
  return {or_nan<T>(x, hn::CopySign(value, x)), or_nan<T>(x, slope)};
}

// e^x = scale * p, for x between exp_clamping's floor and 0. If x is NaN, so is p, whatever bits the scale then has.
template <class T>
struct Exponential {
  Vec<T> scale, p;
};
template <class T>
HWY_INLINE Exponential<T> exp_above_floor(Vec<T> x) {
  const Tag<T> d;
  if constexpr (sizeof(T) == 8 || !HWY_NATIVE_FMA) {  // x log2 e - n below must not round twice
    return {hn::Set(d, T{1}), exp_of<T>(x)};
  } else {
    // e^x = 2^n * p(f), n = round(x log2 e), f = x log2 e - n. The low bits of x log2 e + 1.5 * 2^23 + 127 are n + 127,
    // the exponent of 2^n. p ~ 2^f on [-1/2, 1/2], degree 6, relative error 8e-8 in f32.
    const Vec<T> log2_e = hn::Set(d, 1.44269504f), shift = hn::Set(d, 12582912.0f + 127.0f);
    const Vec<T> n = hn::MulAdd(x, log2_e, shift);
    const Vec<T> f = hn::MulSub(x, log2_e, hn::Sub(n, shift));
    Vec<T> p = hn::MulAdd(hn::Set(d, 1.5353361e-4f), f, hn::Set(d, 1.3398875e-3f));
    p = hn::MulAdd(p, f, hn::Set(d, 9.6184369e-3f));
    p = hn::MulAdd(p, f, hn::Set(d, 5.5503324e-2f));
    p = hn::MulAdd(p, f, hn::Set(d, 2.4022648e-1f));
    p = hn::MulAdd(p, f, hn::Set(d, 6.9314718e-1f));
    p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
    const hn::RebindToSigned<Tag<T>> di;
    return {hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, n))), p};
  }
}

// The larger of the two, and NaN where x is NaN: of a number and NaN, x86 takes the second, ARM the number.
template <class V>
HWY_INLINE V at_least(V least, V x) {
#if HWY_ARCH_X86
  return hn::Max(least, x);
#else
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
}

// e^x for x <= 0. x at or below the floor, -inf included, gives exactly 0: the value at the floor (1e-38 in f32) is
// subtracted, which changes nothing where the result matters. NaN stays NaN. x is clamped in place, so that x * e^x is
// 0 for hidden keys too.
template <class T>
HWY_INLINE Vec<T> exp_clamping(Vec<T>& x) {
  const Tag<T> d;
  const Vec<T> floor = hn::Set(d, static_cast<T>(sizeof(T) == 8 ? -700.0 : -87.0));
  x = at_least(floor, x);
  const Exponential<T> at_x = exp_above_floor<T>(x), at_floor = exp_above_floor<T>(floor);
  return hn::MulSub(at_x.scale, at_x.p, hn::Mul(at_floor.scale, at_floor.p));
}

template <class T>
HWY_INLINE Vec<T> exp_nonpositive(Vec<T> x) {
  return exp_clamping<T>(x);
}

// Conversion between storage and T.

template <class T, class From>
void widen_scalar(const From* from, std::size_t n, T* to) {
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (sizeof(From) > sizeof(T)) {  // finite numbers beyond T stay finite
      constexpr From kMost = std::numeric_limits<T>::max();
      to[i] = static_cast<T>(std::isinf(from[i]) ? from[i] : std::clamp(from[i], -kMost, kMost));
    } else if constexpr (std::is_arithmetic_v<From>) {
      to[i] = static_cast<T>(from[i]);
    } else {
      to[i] = static_cast<T>(static_cast<float>(from[i]));
    }
  }
}

// 16-bit floats, a vector at a time where the target converts them.
inline void widen_half(const float16* from, std::size_t n, float* to) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SSSE3 && HWY_TARGET != HWY_SSE4
  const Tag<float> d;
  const hn::Rebind<hwy::float16_t, Tag<float>> dh;
  for (; i + kLanes<float> <= n; i += kLanes<float>) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from + i))), d, to + i);
  }
#endif
  widen_scalar(from + i, n - i, to + i);
}

inline void widen_half(const bfloat16* from, std::size_t n, float* to) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> du;
  const hn::Rebind<std::uint16_t, Tag<float>> dh;
  std::size_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>) {
    const auto bits = hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(from + i)));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, to + i);
  }
  widen_scalar(from + i, n - i, to + i);
}

// to[0..n) = from[0..n), where `from` holds elements of type `dtype`.
template <class T>
void widen(const void* from, DType dtype, std::size_t n, T* to) {
  switch (dtype) {
    case DType::f64: return widen_scalar(static_cast<const double*>(from), n, to);
    case DType::f32: return widen_scalar(static_cast<const float*>(from), n, to);
    case DType::f16:
      if constexpr (sizeof(T) == 4) return widen_half(static_cast<const float16*>(from), n, to);
      return widen_scalar(static_cast<const float16*>(from), n, to);
    case DType::bf16:
      if constexpr (sizeof(T) == 4) return widen_half(static_cast<const bfloat16*>(from), n, to);
      return widen_scalar(static_cast<const bfloat16*>(from), n, to);
    default: return;
  }
}

// Loads a vector of storage elements in the type we compute in.
template <class T>
HWY_INLINE Vec<T> load_wide(const T* from) {
  return hn::LoadU(Tag<T>(), from);
}
HWY_INLINE Vec<float> load_wide(const bfloat16* from) {
  const hn::RebindToUnsigned<Tag<float>> du;
  const hn::Rebind<std::uint16_t, Tag<float>> dh;
  const auto bits = hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(from)));
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(bits));
}
HWY_INLINE Vec<float> load_wide(const float16* from) {
  const Tag<float> d;
#if HWY_TARGET != HWY_SSSE3 && HWY_TARGET != HWY_SSE4
  const hn::Rebind<hwy::float16_t, Tag<float>> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  alignas(64) float wide[kLanes<float>];
  widen_scalar(from, kLanes<float>, wide);
  return hn::Load(d, wide);
#endif
}

inline void narrow_half(const float* from, std::size_t n, float16* to) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SSSE3 && HWY_TARGET != HWY_SSE4
  const Tag<float> d;
  const hn::Rebind<hwy::float16_t, Tag<float>> dh;
  for (; i + kLanes<float> <= n; i += kLanes<float>) {
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, from + i)), dh, reinterpret_cast<hwy::float16_t*>(to + i));
  }
#endif
  for (; i < n; ++i) to[i] = float16(from[i]);
}

inline void narrow_half(const float* from, std::size_t n, bfloat16* to) {
  // Round to nearest even on the bits; a NaN keeps its quiet bit.
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> du;
  const hn::Rebind<std::uint16_t, Tag<float>> dh;
  std::size_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>) {
    const Vec<float> value = hn::LoadU(d, from + i);
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
    const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, rounded);
    const hn::RebindToSigned<decltype(du)> ds;  // values are below 2^16, so the signed demotion saturates nothing
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(ds, hn::ShiftRight<16>(chosen))), dh,
               reinterpret_cast<std::uint16_t*>(to + i));
  }
  for (; i < n; ++i) to[i] = bfloat16(from[i]);
}

// to[0..n) = from[0..n), where `to` holds elements of type `dtype`.
template <class T>
void narrow(const T* from, std::size_t n, void* to, DType dtype) {
  if constexpr (sizeof(T) == 8) {
    if (dtype == DType::f64) std::memcpy(to, from, n * sizeof(T));
    if (dtype == DType::f32) widen_scalar(from, n, static_cast<float*>(to));
  } else {
    if (dtype == DType::f32) std::memcpy(to, from, n * sizeof(T));
    if (dtype == DType::f16) narrow_half(from, n, static_cast<float16*>(to));
    if (dtype == DType::bf16) narrow_half(from, n, static_cast<bfloat16*>(to));
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
