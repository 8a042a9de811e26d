// The two matrix products of a tile. Neither packs K or V: keys and weights are broadcast, queries and values come as
// vectors.
//   scores S^T[j][i] = K[j][:] . Q^T[:][i]     lanes are queries
//   values O[i][e]  += P^T[j][i] * V[j][e]     lanes are value columns
#if defined(POLYHEAD_CPU_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_PRODUCTS_INL_H_
#undef POLYHEAD_CPU_PRODUCTS_INL_H_
#else
#define POLYHEAD_CPU_PRODUCTS_INL_H_
#endif

#include "cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Broadcast rows per register tile; two vectors wide, that is 24 accumulators of 32 registers, or 12 of 16.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM  // a better target has a lower number
inline constexpr int kTileRows = 12;
#else
inline constexpr int kTileRows = 6;
#endif

// Queries of a panel: the width of S^T in memory.
template <class T>
inline constexpr std::size_t kPanel = 2 * kLanes<T>;

// Splits n rows into register tiles of nearly equal height and calls tile(first, std::integral_constant<int, height>).
template <int kHeight = kTileRows, class Tile>
HWY_INLINE void with_height(int height, std::size_t first, const Tile& tile) {
  if constexpr (kHeight > 1) {
    if (height < kHeight) return with_height<kHeight - 1>(height, first, tile);
  }
  tile(first, std::integral_constant<int, kHeight>{});
}
template <class Tile>
HWY_INLINE void for_register_tiles(std::size_t n, const Tile& tile) {
  const std::size_t tiles = (n + kTileRows - 1) / kTileRows;
  for (std::size_t t = 0, begin = 0; t < tiles; ++t) {
    const std::size_t end = n * (t + 1) / tiles;
    with_height(static_cast<int>(end - begin), begin, tile);
    begin = end;
  }
}

// kRows keys x kWidth vectors of queries. k [kRows][D] with stride, qt [D][kPanel], st [kRows][kPanel].
template <class T, int kRows, int kWidth>
HWY_NOINLINE void score_tile(const T* HWY_RESTRICT k, std::size_t k_stride, const T* HWY_RESTRICT qt, std::size_t D,
                             T* HWY_RESTRICT st) {
  const Tag<T> d;
  Vec<T> sum[kRows][kWidth];
  for (auto& row : sum) {
    for (Vec<T>& s : row) s = hn::Zero(d);
  }
  for (std::size_t c = 0; c < D; ++c) {
    Vec<T> q[kWidth];
    for (int w = 0; w < kWidth; ++w) q[w] = hn::Load(d, qt + c * kPanel<T> + w * kLanes<T>);
    for (int r = 0; r < kRows; ++r) {
      const Vec<T> key = hn::Set(d, k[r * k_stride + c]);
      for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::MulAdd(key, q[w], sum[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) hn::Store(sum[r][w], d, st + r * kPanel<T> + w * kLanes<T>);
  }
}

// st [n][kPanel] = scores of n keys for kWidth vectors of queries.
template <class T, int kWidth>
void scores(const T* k, std::size_t k_stride, std::size_t n, const T* qt, std::size_t D, T* st) {
  for_register_tiles(n, [&](std::size_t first, auto height) {
    score_tile<T, decltype(height)::value, kWidth>(k + first * k_stride, k_stride, qt, D, st + first * kPanel<T>);
  });
}

// kRows queries x kWidth vectors of value columns. pt [n][kPanel], v [n][..] with stride, out [kRows][out_stride]:
// out = (fresh ? 0 : alpha[i] * out) + P V.
template <class T, int kRows, int kWidth>
HWY_NOINLINE void value_tile(const T* HWY_RESTRICT pt, const T* HWY_RESTRICT v, std::size_t v_stride, std::size_t n,
                             const T* HWY_RESTRICT alpha, bool fresh, T* HWY_RESTRICT out, std::size_t out_stride) {
  const Tag<T> d;
  Vec<T> sum[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    const Vec<T> factor = hn::Set(d, alpha[r]);
    for (int w = 0; w < kWidth; ++w) {
      sum[r][w] = fresh ? hn::Zero(d) : hn::Mul(factor, hn::Load(d, out + r * out_stride + w * kLanes<T>));
    }
  }
  for (std::size_t j = 0; j < n; ++j) {
    Vec<T> value[kWidth];
    for (int w = 0; w < kWidth; ++w) value[w] = hn::LoadU(d, v + j * v_stride + w * kLanes<T>);
    for (int r = 0; r < kRows; ++r) {
      const Vec<T> weight = hn::Set(d, pt[j * kPanel<T> + r]);
      for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::MulAdd(weight, value[w], sum[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) hn::Store(sum[r][w], d, out + r * out_stride + w * kLanes<T>);
  }
}

// out [rows][padded_E] += P V over the first keys_of(last row of the register tile) keys, so that a causal block does
// little more than its triangle. A pair of value columns stays in L1 for all rows.
template <class T, class KeysOf>
void accumulate_values(const T* pt, std::size_t rows, const KeysOf& keys_of, const T* v, std::size_t v_stride,
                       const T* alpha, bool fresh, T* out, std::size_t padded_E) {
  for (std::size_t e = 0; e < padded_E; e += kPanel<T>) {
    const bool pair = e + kPanel<T> <= padded_E;
    for_register_tiles(rows, [&](std::size_t first, auto height) {
      constexpr int kRows = decltype(height)::value;
      const std::size_t n = keys_of(first + kRows - 1);
      T* o = out + first * padded_E + e;
      if (pair) {
        value_tile<T, kRows, 2>(pt + first, v + e, v_stride, n, alpha + first, fresh, o, padded_E);
      } else {
        value_tile<T, kRows, 1>(pt + first, v + e, v_stride, n, alpha + first, fresh, o, padded_E);
      }
    });
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
