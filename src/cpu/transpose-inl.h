// Transposition: queries into lanes, and weights and biases between rows and lanes.
#if defined(POLYHEAD_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_TRANSPOSE_INL_H_
#undef POLYHEAD_CPU_TRANSPOSE_INL_H_
#else
#define POLYHEAD_CPU_TRANSPOSE_INL_H_
#endif

#include "cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// 4 x 4 floats within each 128-bit block: v[k] <- lane k of every row.
template <class D, class V>
HWY_INLINE void transpose_in_blocks(D d, V (&v)[4]) {
  const hn::Repartition<double, D> d64;
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, v[0], v[1]));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, v[2], v[3]));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, v[0], v[1]));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(d64, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(d64, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23));
}

// Blocks of 128 bits, as many vectors as a vector has blocks: block b of v[g] <-> block g of v[b].
template <class D, class V, std::size_t kBlocks>
HWY_INLINE void transpose_blocks(D d, V (&v)[kBlocks]) {
  if constexpr (kBlocks == 2) {
    const V low = hn::ConcatLowerLower(d, v[1], v[0]);
    v[1] = hn::ConcatUpperUpper(d, v[1], v[0]);
    v[0] = low;
  } else if constexpr (kBlocks == 4) {
    const V even01 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(v[1]), v[0]);  // blocks 00 10 02 12
    const V odd01 = hn::OddEvenBlocks(v[1], hn::SwapAdjacentBlocks(v[0]));   // blocks 01 11 03 13
    const V even23 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(v[3]), v[2]);
    const V odd23 = hn::OddEvenBlocks(v[3], hn::SwapAdjacentBlocks(v[2]));
    v[0] = hn::ConcatLowerLower(d, even23, even01);
    v[1] = hn::ConcatLowerLower(d, odd23, odd01);
    v[2] = hn::ConcatUpperUpper(d, even23, even01);
    v[3] = hn::ConcatUpperUpper(d, odd23, odd01);
  }
}

// factor * from[..]; integers stay as they are.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_times(D d, T factor, const T* from) {
  if constexpr (std::is_integral_v<T>) return hn::LoadU(d, from);
  return hn::Mul(hn::Set(d, factor), hn::LoadU(d, from));
}

// to[c][r] = factor * from[r][c] for as many rows and columns as a vector has lanes.
template <class T>
HWY_INLINE void transpose_square(const T* HWY_RESTRICT from, std::size_t from_stride, T factor, T* HWY_RESTRICT to,
                                 std::size_t to_stride) {
  const Tag<T> d;
  constexpr std::size_t kBlocks = kLanes<T> / 4;
  Vec<T> v[4][kBlocks];  // [row or column within its block of four][block]
  for (std::size_t g = 0; g < kBlocks; ++g) {
    Vec<T> rows[4];
    for (std::size_t k = 0; k < 4; ++k) rows[k] = load_times(d, factor, from + (4 * g + k) * from_stride);
    transpose_in_blocks(d, rows);
    for (std::size_t k = 0; k < 4; ++k) v[k][g] = rows[k];
  }
  for (std::size_t k = 0; k < 4; ++k) {
    transpose_blocks(d, v[k]);
    for (std::size_t b = 0; b < kBlocks; ++b) hn::StoreU(v[k][b], d, to + (4 * b + k) * to_stride);
  }
}

// to[c][r] = factor * from[r][c] for up to four rows; the last row is repeated to make four.
template <class T>
void transpose_four(const T* HWY_RESTRICT from, std::size_t from_stride, std::size_t rows, std::size_t columns,
                    T factor, T* HWY_RESTRICT to, std::size_t to_stride) {
  const hn::Full128<T> d;
  const T* row[4];
  for (std::size_t k = 0; k < 4; ++k) row[k] = from + (k < rows ? k : rows - 1) * from_stride;
  std::size_t c = 0;
  for (; c + 4 <= columns; c += 4) {
    hn::Vec<decltype(d)> v[4];
    for (std::size_t k = 0; k < 4; ++k) v[k] = load_times(d, factor, row[k] + c);
    transpose_in_blocks(d, v);
    for (std::size_t k = 0; k < 4; ++k) hn::StoreU(v[k], d, to + (c + k) * to_stride);
  }
  for (; c < columns; ++c) {
    for (std::size_t k = 0; k < 4; ++k) to[c * to_stride + k] = factor * row[k][c];
  }
}

// to[c][r] = factor * from[r][c], rows x columns. Rows of `to` must have room for `rows` rounded up to four.
template <class T>
void transpose(const T* HWY_RESTRICT from, std::size_t from_stride, std::size_t rows, std::size_t columns, T factor,
               T* HWY_RESTRICT to, std::size_t to_stride) {
  std::size_t r = 0;
  if constexpr (sizeof(T) == 4) {
    for (; r + kLanes<T> <= rows; r += kLanes<T>) {
      std::size_t c = 0;
      for (; c + kLanes<T> <= columns; c += kLanes<T>) {
        transpose_square(from + r * from_stride + c, from_stride, factor, to + c * to_stride + r, to_stride);
      }
      for (std::size_t k = r; k < r + kLanes<T> && c < columns; k += 4) {
        transpose_four(from + k * from_stride + c, from_stride, 4, columns - c, factor, to + c * to_stride + k,
                       to_stride);
      }
    }
    for (; r < rows; r += 4) {
      transpose_four(from + r * from_stride, from_stride, std::min<std::size_t>(4, rows - r), columns, factor, to + r,
                     to_stride);
    }
  } else {
    for (; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) to[c * to_stride + r] = factor * from[r * from_stride + c];
    }
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
