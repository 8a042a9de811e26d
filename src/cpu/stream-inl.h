// Products for few queries, with the head dim in lanes: every row of K and V is read once, as it lies, and 16-bit
// storage is widened in registers.
//   scores S[r][j]  = Q[r][:] . K[j][:]     lanes are columns of the head dim
//   values O[r][e] += P[r][j] * V[j][e]     lanes are value columns
#if defined(POLYHEAD_CPU_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_STREAM_INL_H_
#undef POLYHEAD_CPU_STREAM_INL_H_
#else
#define POLYHEAD_CPU_STREAM_INL_H_
#endif

#include "cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Accumulators of a register tile, out of 32 registers or of 16.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM  // a better target has a lower number
inline constexpr int kStreamTile = 16;
#else
inline constexpr int kStreamTile = 8;
#endif
// Values that stay in L1 while all rows and columns pass over them.
inline constexpr std::int64_t kStreamedValues = 32;
// How many rows ahead to prefetch: 8 KB for 128 columns.
template <class S>
inline constexpr std::int64_t kAhead = 64 / sizeof(S);

// Rows of K or V in their storage type S: row j starts at data + j * stride, which may be negative.
template <class S>
struct Stream {
  const S* data = nullptr;
  std::int64_t stride = 0;
  std::size_t columns = 0;

  const S* row(std::int64_t j) const { return data + j * stride; }
};

// Prefetches a row into L2. The tiles of several queries jump between rows, which hardware prefetchers do not follow:
// prefetched in memory order, rows came up to twice as fast. A single query reads in that order anyway and gains a
// tenth or more where a core waits for memory, nothing elsewhere.
template <class S>
HWY_INLINE void fetch(const S* row, std::size_t columns) {
  for (std::size_t c = 0; c < columns; c += 64 / sizeof(S)) __builtin_prefetch(row + c, 0, 2);
}

// Loads `columns` numbers, fewer than a vector has, as f32; the other lanes are 0.
template <class S>
HWY_NOINLINE Vec<float> load_some(const S* from, std::size_t columns) {
  alignas(64) float wide[kLanes<float>] = {};
  widen_scalar(from, columns, wide);
  return hn::Load(Tag<float>(), wide);
}

// The sums of four vectors within each 128-bit block: lane k of a block <- its sum of v[k].
template <class V>
HWY_INLINE V sum_in_blocks(const V (&v)[4]) {
  const Tag<float> d;
  const hn::Repartition<double, Tag<float>> d64;
  const auto pair = [&](V a, V b) { return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)); };
  const auto low = hn::BitCast(d64, pair(v[0], v[1])), high = hn::BitCast(d64, pair(v[2], v[3]));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, low, high)),
                 hn::BitCast(d, hn::InterleaveUpper(d64, low, high)));
}

// s[r][0..lanes) = q[r] . key[..], for as many keys as a vector has lanes. q [kRows][q_stride], 0 behind its D columns.
// A score has the same bits whatever its lane and its row are. kPart: D is not a whole number of vectors. Prefetches
// what lies `ahead` elements after each key, unless that is 0.
template <class S, int kRows, bool kPart>
HWY_NOINLINE void score_keys(const S* const (&key)[kLanes<float>], std::int64_t ahead, const float* HWY_RESTRICT q,
                             std::size_t q_stride, std::size_t D, float* HWY_RESTRICT s, std::size_t s_stride) {
  const Tag<float> d;
  constexpr std::size_t kBlocks = kLanes<float> / 4;
  // With several rows, four keys share the loads of q; a single row reads the keys in memory order.
  constexpr std::size_t kAtOnce = kRows == 1 ? 1 : 4;
  Vec<float> part[kRows][kBlocks];
  for (std::size_t g = 0; g < kBlocks; ++g) {
    Vec<float> sum[kRows][4];
    for (std::size_t first = 4 * g; first < 4 * g + 4; first += kAtOnce) {
      for (std::size_t k = first; k < first + kAtOnce && ahead != 0; ++k) fetch(key[k] + ahead, D);
      Vec<float> dot[kRows][kAtOnce];
      for (int r = 0; r < kRows; ++r) {
        for (std::size_t k = 0; k < kAtOnce; ++k) dot[r][k] = hn::Zero(d);
      }
      const auto add = [&](std::size_t c, const auto& load) {
        Vec<float> query[kRows];
        for (int r = 0; r < kRows; ++r) query[r] = hn::Load(d, q + r * q_stride + c);
        for (std::size_t k = 0; k < kAtOnce; ++k) {
          const Vec<float> columns = load(key[first + k] + c);
          for (int r = 0; r < kRows; ++r) dot[r][k] = hn::MulAdd(query[r], columns, dot[r][k]);
        }
      };
      std::size_t c = 0;
      for (; c + kLanes<float> <= D; c += kLanes<float>) add(c, [](const S* from) { return load_wide(from); });
      if constexpr (kPart) add(c, [&](const S* from) { return load_some(from, D - c); });
      for (int r = 0; r < kRows; ++r) {
        for (std::size_t k = 0; k < kAtOnce; ++k) sum[r][first % 4 + k] = dot[r][k];
      }
    }
    for (int r = 0; r < kRows; ++r) part[r][g] = sum_in_blocks(sum[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    transpose_blocks(d, part[r]);
    Vec<float> total = part[r][0];
    for (std::size_t g = 1; g < kBlocks; ++g) total = hn::Add(total, part[r][g]);
    hn::StoreU(total, d, s + r * s_stride);
  }
}

// out[r][column..] += sum over keys [j, end) of p[r][j] * v[j][column..], kWidth vectors of columns; a single one may
// be partial. The sum is formed on its own and added once. Prefetches what lies `ahead` elements after each row, unless
// that is 0.
template <class S, int kRows, int kWidth>
HWY_NOINLINE void add_columns(const Stream<S>& v, std::int64_t j, std::int64_t end, std::size_t column,
                              const float* HWY_RESTRICT p, std::size_t p_stride, std::int64_t ahead,
                              float* const* HWY_RESTRICT out) {
  const Tag<float> d;
  const bool part = v.columns - column < kLanes<float>;
  Vec<float> sum[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::Zero(d);
  }
  for (; j < end; ++j) {
    const S* row = v.row(j) + column;
    if (ahead != 0) fetch(row + ahead, kWidth * kLanes<float>);
    Vec<float> value[kWidth];
    if constexpr (kWidth == 1) {
      value[0] = part ? load_some(row, v.columns - column) : load_wide(row);
    } else {
      for (int w = 0; w < kWidth; ++w) value[w] = load_wide(row + w * kLanes<float>);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vec<float> weight = hn::Set(d, p[r * p_stride + static_cast<std::size_t>(j)]);
      for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::MulAdd(weight, value[w], sum[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) {
      float* to = out[r] + column + w * kLanes<float>;
      hn::Store(hn::Add(hn::Load(d, to), sum[r][w]), d, to);
    }
  }
}

// tile(first row, std::integral_constant<int, rows>) for tiles of four, two and one rows.
template <class Tile>
HWY_INLINE void for_row_tiles(std::size_t rows, const Tile& tile) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) tile(r, std::integral_constant<int, 4>{});
  if (r + 2 <= rows) tile(r, std::integral_constant<int, 2>{}), r += 2;
  if (r < rows) tile(r, std::integral_constant<int, 1>{});
}

// tile(first column, std::integral_constant<int, vectors>) for tiles of kWidth vectors, then of half as many, and so
// on; what is left, less than a vector, comes as a tile of one.
template <int kWidth, class Tile>
HWY_INLINE void for_column_tiles(std::size_t e, std::size_t E, const Tile& tile) {
  constexpr std::size_t kColumns = kWidth * kLanes<float>;
  for (; e + kColumns <= E; e += kColumns) tile(e, std::integral_constant<int, kWidth>{});
  if constexpr (kWidth > 1) {
    for_column_tiles<kWidth / 2>(e, E, tile);
  } else if (e < E) {
    tile(e, std::integral_constant<int, 1>{});
  }
}

// s[r][j] = q[r] . k[j] for n keys, written in whole vectors. q [rows][q_stride], 0 behind its columns.
template <class S>
void stream_scores(const Stream<S>& k, std::int64_t n, const float* q, std::size_t q_stride, std::size_t rows, float* s,
                   std::size_t s_stride) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes<float>);
  for (std::int64_t j = 0; j < n; j += kStep) {
    const S* key[kLanes<float>];
    for (std::int64_t i = 0; i < kStep; ++i) key[i] = k.row(std::min(j + i, n - 1));
    for_row_tiles(rows, [&](std::size_t r, auto tile) {
      constexpr int kRows = decltype(tile)::value;
      const auto score = k.columns % kLanes<float> == 0 ? score_keys<S, kRows, false> : score_keys<S, kRows, true>;
      score(key, r == 0 ? kAhead<S> * k.stride : 0, q + r * q_stride, q_stride, k.columns, s + r * s_stride + j,
            s_stride);
    });
  }
}

// out[r][0..columns) += sum of p[r][j] * v[j] over n keys. p [rows][p_stride].
template <class S>
void stream_values(const Stream<S>& v, std::int64_t n, const float* p, std::size_t p_stride, std::size_t rows,
                   float* const* out) {
  for (std::int64_t j = 0; j < n; j += kStreamedValues) {
    for_row_tiles(rows, [&](std::size_t r, auto tile) {
      constexpr int kRows = decltype(tile)::value;
      for_column_tiles<std::min(kStreamTile / kRows, 8)>(0, v.columns, [&](std::size_t column, auto width) {
        add_columns<S, kRows, decltype(width)::value>(v, j, std::min(j + kStreamedValues, n), column, p + r * p_stride,
                                                      p_stride, r == 0 ? kAhead<S> * v.stride : 0, out + r);
      });
    });
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
