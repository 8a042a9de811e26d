// Pairs of bf16, neighbours along the axis that a product contracts: one operand of instructions that multiply two
// pairs and add both products to an f32, twice as many a time as f32 alone. Our Highway has no names for them, so the
// intrinsics are here. Kernels take the type of their operands, U, apart from that of their sums: it is a Pair, float
// or double.
#if defined(POLYHEAD_CPU_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_PAIRS_INL_H_
#undef POLYHEAD_CPU_PAIRS_INL_H_
#else
#define POLYHEAD_CPU_PAIRS_INL_H_
#endif

#include "cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

inline constexpr bool kMultipliesPairs = HWY_TARGET == HWY_AVX3_DL;

using Pair = std::int32_t;  // the first in the lower half; the last of an odd number is paired with 0

template <class U>
struct SumOf {
  using Type = U;
};
template <>
struct SumOf<Pair> {
  using Type = float;
};
template <class U>
using Sum = typename SumOf<U>::Type;
// Numbers of the contracted axis in a unit.
template <class U>
inline constexpr std::int64_t kDepth = std::is_same_v<U, Pair> ? 2 : 1;

// May what is computed in T be multiplied in pairs on this target?
template <class T>
inline constexpr bool kMayPair = kMultipliesPairs&& std::is_same_v<T, float>;

#if HWY_TARGET == HWY_AVX3_DL

HWY_INLINE Vec<float> multiply_pairs(Vec<Pair> a, Vec<Pair> b, Vec<float> sum) {
  return Vec<float>{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(a.raw), reinterpret_cast<__m512bh>(b.raw))};
}
// Pairs of neighbours: those of the first vector, then those of the second.
HWY_INLINE Vec<Pair> round_neighbours(Vec<float> first, Vec<float> second) {
  return Vec<Pair>{reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second.raw, first.raw))};
}
// Pairs of one number of the first vector and one of the second.
HWY_INLINE Vec<Pair> round_pairs(Vec<float> first, Vec<float> second) {
  alignas(64) static constexpr std::uint16_t kPlaces[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                            21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                            11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i places = _mm512_load_si512(kPlaces);
  return Vec<Pair>{_mm512_maskz_permutexvar_epi16(~__mmask32{0}, places, round_neighbours(first, second).raw)};
}

#endif

// sum + a b.
template <class U>
HWY_INLINE Vec<Sum<U>> multiply_add(Vec<U> a, Vec<U> b, Vec<Sum<U>> sum) {
#if HWY_TARGET == HWY_AVX3_DL
  if constexpr (std::is_same_v<U, Pair>) return multiply_pairs(a, b, sum);
#endif
  if constexpr (!std::is_same_v<U, Pair>) return hn::MulAdd(a, b, sum);
}

// to[0..n) = pairs of first[i] and second[i], or of first[i] and 0 without `second`.
inline void zip(const bfloat16* first, const bfloat16* second, std::size_t n, Pair* to) {
  const hn::RebindToUnsigned<Tag<Pair>> du;
  const hn::Rebind<std::uint16_t, Tag<Pair>> dh;
  const auto wide = [&](const bfloat16* from) {
    return hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const std::uint16_t*>(from)));
  };
  std::size_t i = 0;
  for (; i + kLanes<Pair> <= n; i += kLanes<Pair>) {
    auto both = wide(first + i);
    if (second != nullptr) both = hn::Or(both, hn::ShiftLeft<16>(wide(second + i)));
    hn::StoreU(hn::BitCast(Tag<Pair>(), both), Tag<Pair>(), to + i);
  }
  for (; i < n; ++i) {
    const std::uint32_t upper = second == nullptr ? 0 : second[i].bits;
    to[i] = static_cast<Pair>(upper << 16 | first[i].bits);
  }
}

// to [2][n] = the first and the second numbers of n pairs.
inline void unzip(const Pair* from, std::size_t n, float* to) {
  const Tag<float> d;
  const Tag<Pair> dp;
  for (std::size_t i = 0; i < n; i += kLanes<Pair>) {
    const Vec<Pair> both = hn::LoadU(dp, from + i);
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(both)), d, to + i);
    hn::StoreU(hn::BitCast(d, hn::And(both, hn::Set(dp, ~0xffff))), d, to + n + i);
  }
}

// to[0..(n + 1) / 2) = n neighbours, in pairs.
inline void pair_up(const bfloat16* from, std::size_t n, Pair* to) {
  if (n % 2 != 0) to[n / 2] = from[n - 1].bits;
  std::memcpy(to, from, n / 2 * sizeof(Pair));
}

// Both of f32, rounded.
#if HWY_TARGET == HWY_AVX3_DL
inline void zip_rounded(const float* first, const float* second, std::size_t n, Pair* to) {
  const Tag<float> d;
  std::size_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>) {
    const Vec<float> upper = second == nullptr ? hn::Zero(d) : hn::LoadU(d, second + i);
    hn::StoreU(round_pairs(hn::LoadU(d, first + i), upper), Tag<Pair>(), to + i);
  }
  for (; i < n; ++i) {
    const bfloat16 lower(first[i]), upper(second == nullptr ? 0.0f : second[i]);
    zip(&lower, &upper, 1, to + i);
  }
}
inline void pair_up_rounded(const float* from, std::size_t n, Pair* to) {
  constexpr std::size_t kStep = 2 * kLanes<float>;
  const Tag<float> d;
  std::size_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    hn::StoreU(round_neighbours(hn::LoadU(d, from + i), hn::LoadU(d, from + i + kLanes<float>)), Tag<Pair>(),
               to + i / 2);
  }
  for (; i < n; i += 2) {
    const bfloat16 lower(from[i]), upper(i + 1 < n ? from[i + 1] : 0.0f);
    zip(&lower, &upper, 1, to + i / 2);
  }
}
#else
inline void zip_rounded(const float*, const float*, std::size_t, Pair*) {}
inline void pair_up_rounded(const float*, std::size_t, Pair*) {}
#endif

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
