// The matrix products of a tile. None packs K or V: keys and weights are broadcast, queries and values come as vectors.
//   scores S^T[j][i] = K[j][:] . Q^T[:][i]     lanes are queries
//   values O[i][e]  += P^T[j][i] * V[j][e]     lanes are value columns
//   keys   dV[j][e] += P^T[j][i] * dO[i][e]    lanes are value columns
#if defined(POLYHEAD_CPU_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_PRODUCTS_INL_H_
#undef POLYHEAD_CPU_PRODUCTS_INL_H_
#else
#define POLYHEAD_CPU_PRODUCTS_INL_H_
#endif

#include "cpu/pairs-inl.h"

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

// Units that its queries are, where they are contracted.
template <class U>
inline constexpr std::size_t kPanelUnits = kPanel<U> / kDepth<U>;

// Calls tile(first, std::integral_constant<int, height>): with_height for one register tile, for_register_tiles for n
// rows split into tiles of nearly equal height, at most kMost.
template <int kHeight = kTileRows, class Tile>
HWY_INLINE void with_height(int height, std::size_t first, const Tile& tile) {
  if constexpr (kHeight > 1) {
    if (height < kHeight) return with_height<kHeight - 1>(height, first, tile);
  }
  tile(first, std::integral_constant<int, kHeight>{});
}
template <int kMost = kTileRows, class Tile>
HWY_INLINE void for_register_tiles(std::size_t n, const Tile& tile) {
  const std::size_t tiles = (n + kMost - 1) / kMost;
  for (std::size_t t = 0, begin = 0; t < tiles; ++t) {
    const std::size_t end = n * (t + 1) / tiles;
    with_height<kMost>(static_cast<int>(end - begin), begin, tile);
    begin = end;
  }
}

// kRows keys x kWidth vectors of queries: st [kRows][kPanel] = k [kRows][D] . qt [D][kPanel], D counting units; times
// `factor` in pairs of bf16, which are not scaled beforehand, for that would round them. Asks for the keys of the
// next tile, a line or less at every step, as if rows lay side by side: 3 to 5 % of causal heads of 128 columns.
template <class U, int kRows, int kWidth>
HWY_NOINLINE void score_tile(const U* HWY_RESTRICT k, std::size_t k_stride, const U* HWY_RESTRICT qt, std::size_t D,
                             Sum<U> factor, Sum<U>* HWY_RESTRICT st) {
  using T = Sum<U>;
  const Tag<T> d;
  Vec<T> sum[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < D; ++i) {
    Vec<U> queries[kWidth];
    for (int w = 0; w < kWidth; ++w) queries[w] = hn::LoadU(Tag<U>(), qt + i * kPanel<T> + w * kLanes<T>);
    __builtin_prefetch(k + kRows * k_stride + i * kRows);
    for (int r = 0; r < kRows; ++r) {
      const Vec<U> key = hn::Set(Tag<U>(), k[r * k_stride + i]);
      for (int w = 0; w < kWidth; ++w) sum[r][w] = multiply_add<U>(key, queries[w], sum[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) {
      if constexpr (!std::is_same_v<U, T>) sum[r][w] = hn::Mul(hn::Set(d, factor), sum[r][w]);
      hn::StoreU(sum[r][w], d, st + r * kPanel<T> + w * kLanes<T>);
    }
  }
}

// st [n][kPanel] = k [n][D] . qt [D][kPanel]: scores of keys for kWidth vectors of queries, or values and dO.
template <class U, int kWidth>
void scores(const U* k, std::size_t k_stride, std::size_t n, const U* qt, std::size_t D, Sum<U> factor, Sum<U>* st) {
  for_register_tiles(n, [&](std::size_t first, auto height) {
    score_tile<U, decltype(height)::value, kWidth>(k + first * k_stride, k_stride, qt, D, factor,
                                                   st + first * kPanel<U>);
  });
}

// kRows queries x kWidth vectors of value columns, over n units of keys. pt [n][kPanel], v [n][..] with stride, out
// [kRows][out_stride]: out = (fresh ? 0 : alpha[i] * out) + P V; without alpha it is 1. The product is summed by itself
// and added once, so that the rounding of a long sum grows with its number of tiles.
template <class U, int kRows, int kWidth>
HWY_NOINLINE void column_tile(const U* HWY_RESTRICT pt, const U* HWY_RESTRICT v, std::size_t v_stride, std::size_t n,
                              const Sum<U>* HWY_RESTRICT alpha, bool fresh, Sum<U>* HWY_RESTRICT out,
                              std::size_t out_stride) {
  using T = Sum<U>;
  const Tag<T> d;
  Vec<T> sum[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::Zero(d);
  }
  for (std::size_t j = 0; j < n; ++j) {
    Vec<U> value[kWidth];
    for (int w = 0; w < kWidth; ++w) value[w] = hn::LoadU(Tag<U>(), v + j * v_stride + w * kLanes<T>);
    for (int r = 0; r < kRows; ++r) {
      const Vec<U> weight = hn::Set(Tag<U>(), pt[j * kPanel<T> + r]);
      for (int w = 0; w < kWidth; ++w) sum[r][w] = multiply_add<U>(weight, value[w], sum[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const Vec<T> factor = hn::Set(d, alpha == nullptr ? T{1} : alpha[r]);
    for (int w = 0; w < kWidth; ++w) {
      T* at = out + r * out_stride + w * kLanes<T>;
      hn::StoreU(fresh ? sum[r][w] : hn::MulAdd(factor, hn::LoadU(d, at), sum[r][w]), d, at);
    }
  }
}

// tile(first column, std::integral_constant<int, vectors>) for kMost vectors of columns at a time, a power of 2, and
// fewer at the end.
template <class T, int kMost, class Tile>
HWY_INLINE void for_columns(std::size_t begin, std::size_t padded_columns, const Tile& tile) {
  for (; begin + kMost * kLanes<T> <= padded_columns; begin += kMost * kLanes<T>) {
    tile(begin, std::integral_constant<int, kMost>{});
  }
  if constexpr (kMost > 1) for_columns<T, kMost / 2>(begin, padded_columns, tile);
}

// out [rows][padded_E] = (fresh ? 0 : alpha * out) + P V over the first keys_of(last row of the register tile) keys, so
// that a causal block does little more than its triangle. A pair of value columns stays in L1 for all rows.
template <class U, class KeysOf>
void accumulate_values(const U* pt, std::size_t rows, const KeysOf& keys_of, const U* v, std::size_t v_stride,
                       const Sum<U>* alpha, bool fresh, Sum<U>* out, std::size_t out_stride, std::size_t padded_E) {
  for_columns<U, 2>(0, padded_E, [&](std::size_t e, auto width) {
    for_register_tiles(rows, [&](std::size_t first, auto height) {
      constexpr int kRows = decltype(height)::value;
      const std::size_t n = (keys_of(first + kRows - 1) + kDepth<U> - 1) / kDepth<U>;
      column_tile<U, kRows, decltype(width)::value>(pt + first, v + e, v_stride, n,
                                                    alpha == nullptr ? alpha : alpha + first, fresh,
                                                    out + first * out_stride + e, out_stride);
    });
  });
}

// kRows keys x kWidth vectors of columns: out [kRows][..] = (fresh ? 0 : out) + P^T X over units [begin, end) of the
// rows of several panels. Panel p's weights lie at pt + p * pt_panel [keys][kPanelUnits]; x [end][..] holds the rows of
// all. Summed as above.
template <class U, int kRows, int kWidth>
HWY_NOINLINE void key_tile(const U* HWY_RESTRICT pt, std::size_t pt_panel, const U* HWY_RESTRICT x,
                           std::size_t x_stride, std::size_t begin, std::size_t end, bool fresh,
                           Sum<U>* HWY_RESTRICT out, std::size_t out_stride) {
  using T = Sum<U>;
  const Tag<T> d;
  Vec<T> sum[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::Zero(d);
  }
  pt += begin / kPanelUnits<U> * pt_panel + begin % kPanelUnits<U>;
  for (std::size_t i = begin; i < end;) {  // one loop: two, for panels and rows, would keep the sums in memory
    Vec<U> columns[kWidth];
    for (int w = 0; w < kWidth; ++w) columns[w] = hn::LoadU(Tag<U>(), x + i * x_stride + w * kLanes<T>);
    for (int r = 0; r < kRows; ++r) {
      const Vec<U> factor = hn::Set(Tag<U>(), pt[r * kPanelUnits<U>]);
      for (int w = 0; w < kWidth; ++w) sum[r][w] = multiply_add<U>(factor, columns[w], sum[r][w]);
    }
    pt += ++i % kPanelUnits<U> == 0 ? pt_panel - kPanelUnits<U> + 1 : 1;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) {
      T* at = out + r * out_stride + w * kLanes<T>;
      hn::StoreU(fresh ? sum[r][w] : hn::Add(hn::LoadU(d, at), sum[r][w]), d, at);
    }
  }
}

// Rows of a group of panels.
struct RowRange {
  std::size_t begin, end;
};

// out [n keys][padded_E] (+)= P^T X, where X [..][..] is dO or Q of several panels, over rows_of(first key, last key of
// the register tile). Of 32 registers, 6 x 4 vectors need fewer loads than 12 x 2.
template <class U, class RowsOf>
void accumulate_keys(const U* pt, std::size_t pt_panel, std::size_t n, const RowsOf& rows_of, const U* x,
                     std::size_t x_stride, bool fresh, Sum<U>* out, std::size_t out_stride, std::size_t padded_E) {
  for_columns<U, kTileRows == 12 ? 4 : 2>(0, padded_E, [&](std::size_t e, auto width) {
    constexpr int kWidth = decltype(width)::value;
    for_register_tiles<kWidth == 4 ? kTileRows / 2 : kTileRows>(n, [&](std::size_t first, auto height) {
      constexpr int kRows = decltype(height)::value;
      const RowRange rows = rows_of(first, first + kRows - 1);
      key_tile<U, kRows, kWidth>(pt + first * kPanelUnits<U>, pt_panel, x + e, x_stride, rows.begin / kDepth<U>,
                                 (rows.end + kDepth<U> - 1) / kDepth<U>, fresh, out + first * out_stride + e,
                                 out_stride);
    });
  });
}

// Either product where X holds NaN or infinity, which a weight of 0 would spread to keys and queries that do not see
// each other: out[i] += pt[j][i] * x[j], or with kToKeys out[j] += pt[j][i] * x[i], where the weight is not 0.
template <class T, bool kToKeys>
void accumulate_seen(const T* pt, std::size_t n, std::size_t rows, const T* x, std::size_t x_stride, T* out,
                     std::size_t out_stride, std::size_t padded_E) {
  const Tag<T> d;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < rows; ++i) {
      const T weight = pt[j * kPanel<T> + i];
      if (weight == 0) continue;
      const T* from = x + (kToKeys ? i : j) * x_stride;
      T* to = out + (kToKeys ? j : i) * out_stride;
      for (std::size_t e = 0; e < padded_E; e += kLanes<T>) {
        hn::StoreU(hn::MulAdd(hn::Set(d, weight), hn::LoadU(d, from + e), hn::LoadU(d, to + e)), d, to + e);
      }
    }
  }
}

// Is every number of x [rows][padded] finite? 0 * x is 0 or NaN; four sums, so that additions need not wait.
template <class T>
bool all_finite(const T* x, std::size_t stride, std::size_t rows, std::size_t padded) {
  const Tag<T> d;
  const Vec<T> zero = hn::Zero(d);
  Vec<T> sums[4] = {zero, zero, zero, zero};
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    for (std::size_t e = 0; e < padded; e += kLanes<T>) {
      for (std::size_t i = 0; i < 4; ++i) sums[i] = hn::MulAdd(hn::LoadU(d, x + (r + i) * stride + e), zero, sums[i]);
    }
  }
  for (; r < rows; ++r) {
    for (std::size_t e = 0; e < padded; e += kLanes<T>) {
      sums[0] = hn::MulAdd(hn::LoadU(d, x + r * stride + e), zero, sums[0]);
    }
  }
  return hn::AllFalse(d, hn::IsNaN(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
