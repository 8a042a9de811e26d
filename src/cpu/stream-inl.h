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

#include <hwy/cache_control.h>

#include "cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Accumulators of a register tile, of 32 registers or of 16.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM  // a better target has a lower number
inline constexpr int kStreamTile = 16;
#else
inline constexpr int kStreamTile = 8;
#endif
// Values that stay in L1 while all rows and columns pass over them.
inline constexpr std::size_t kStreamedValues = 32;

// Rows of K or V in their storage type S: row j starts at data + j * stride, which may be negative.
template <class S>
struct Stream {
  const S* data = nullptr;
  std::int64_t stride = 0;

  const S* row(std::int64_t j) const { return data + j * stride; }
};

// A vector of storage as f32.
HWY_INLINE Vec<float> load_wide(const float* from) { return hn::LoadU(Tag<float>(), from); }
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
// The same of fewer than a vector; the other lanes are 0.
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
// A score has the same bits whatever its lane and its row are.
template <class S, int kRows>
HWY_NOINLINE void score_keys(const S* const (&key)[kLanes<float>], std::int64_t ahead, const float* HWY_RESTRICT q, std::size_t q_stride,
                             std::size_t D, float* HWY_RESTRICT s, std::size_t s_stride) {
  const Tag<float> d;
  constexpr std::size_t kBlocks = kLanes<float> / 4;
  Vec<float> part[kRows][kBlocks];
  for (std::size_t g = 0; g < kBlocks; ++g) {
    Vec<float> sum[kRows][4];
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < 4; ++k) sum[r][k] = hn::Zero(d);
    }
    const auto add = [&](std::size_t c, const auto& load) {
      Vec<float> query[kRows];
      for (int r = 0; r < kRows; ++r) query[r] = hn::Load(d, q + r * q_stride + c);
      for (std::size_t k = 0; k < 4; ++k) {
        const Vec<float> columns = load(key[4 * g + k] + c);
        hwy::Prefetch(key[4 * g + k] + c + ahead);
        for (int r = 0; r < kRows; ++r) sum[r][k] = hn::MulAdd(query[r], columns, sum[r][k]);
      }
    };
    std::size_t c = 0;
    for (; c + kLanes<float> <= D; c += kLanes<float>) add(c, [](const S* from) { return load_wide(from); });
    if (c < D) add(c, [&](const S* from) { return load_some(from, D - c); });
    for (int r = 0; r < kRows; ++r) part[r][g] = sum_in_blocks(sum[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    transpose_blocks(d, part[r]);
    Vec<float> total = part[r][0];
    for (std::size_t g = 1; g < kBlocks; ++g) total = hn::Add(total, part[r][g]);
    hn::StoreU(total, d, s + r * s_stride);
  }
}

// out[r][..] += sum over n keys of p[r][j] * v[j][..], kWidth vectors of columns, or one of `some` columns.
template <class S, int kRows, int kWidth>
HWY_NOINLINE void add_columns(const S* HWY_RESTRICT v, std::int64_t v_stride, std::size_t n,
                              const float* HWY_RESTRICT p, std::size_t p_stride, std::size_t some,
                              float* const* HWY_RESTRICT out, std::size_t column) {
  const Tag<float> d;
  Vec<float> sum[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::Load(d, out[r] + column + w * kLanes<float>);
  }
  for (std::size_t j = 0; j < n; ++j, v += v_stride) {
    Vec<float> value[kWidth];
    for (int w = 0; w < kWidth; ++w) hwy::Prefetch(v + 16 * v_stride + w * kLanes<float>);
    if constexpr (kWidth == 1) {
      value[0] = some == 0 ? load_wide(v) : load_some(v, some);
    } else {
      for (int w = 0; w < kWidth; ++w) value[w] = load_wide(v + w * kLanes<float>);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vec<float> weight = hn::Set(d, p[r * p_stride + j]);
      for (int w = 0; w < kWidth; ++w) sum[r][w] = hn::MulAdd(weight, value[w], sum[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) hn::Store(sum[r][w], d, out[r] + column + w * kLanes<float>);
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

// s[r][0..n) = q[r] . k[j]; writes up to whole vectors. q [rows][q_stride].
template <class S>
void stream_scores(const Stream<S>& k, std::int64_t n, const float* q, std::size_t q_stride, std::size_t rows,
                   std::size_t D, float* s, std::size_t s_stride) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes<float>);
  for (std::int64_t j = 0; j < n; j += kStep) {
    const S* key[kLanes<float>];
    for (std::int64_t i = 0; i < kStep; ++i) key[i] = k.row(std::min(j + i, n - 1));
    for_row_tiles(rows, [&](std::size_t r, auto tile) {
      score_keys<S, decltype(tile)::value>(key, kStep * k.stride, q + r * q_stride, q_stride, D, s + r * s_stride + j, s_stride);
    });
  }
}

// out[r][0..padded E) += sum_j p[r][j] * v[j].
template <class S>
void stream_values(const Stream<S>& v, std::int64_t n, const float* p, std::size_t p_stride, std::size_t rows,
                   std::size_t E, float* const* out) {
  constexpr auto kStep = static_cast<std::int64_t>(kStreamedValues);
  for (std::int64_t j = 0; j < n; j += kStep) {
    const auto keys = static_cast<std::size_t>(std::min(kStep, n - j));
    for_row_tiles(rows, [&](std::size_t r, auto tile) {
      constexpr int kRows = decltype(tile)::value;
      for_column_tiles<std::min(kStreamTile / kRows, 8)>(0, E, [&](std::size_t e, auto width) {
        const std::size_t some = E - e < kLanes<float> ? E - e : 0;
        add_columns<S, kRows, decltype(width)::value>(v.row(j) + e, v.stride, keys, p + r * p_stride + j, p_stride,
                                                      some, out + r, e);
      });
    });
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
