// Products of an f32 A and a B packed in bf16, by instructions that multiply bf16 in pairs and add in f32: AVX512-BF16,
// at twice the speed of f32. Highway has no name for them yet.
#include "cpu/pair_gemm.h"

#include <algorithm>
#include <cstring>

#include "cpu/kernels.h"
#include "cpu/split.h"

#if defined(__x86_64__)
#include <hwy/targets.h>
#include <immintrin.h>

namespace polyhead::cpu {
namespace {

using Pair = std::int32_t;  // two bf16, neighbours along K; the last of an odd K is paired with 0

constexpr std::int64_t kRows = 12, kColumns = 32;  // of a register tile; a strip of B has as many columns
constexpr std::int64_t kPackedBytes = 512 * 1024;  // of L2 for the A of a block: B is read once per block

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

constexpr std::int64_t kPairsAtOnce = 16, kLinesAtOnce = 4;

// Up to kPairsAtOnce pairs of a line that has `left` numbers left, rounded to bf16; 0 behind its end.
[[gnu::target("avx512f,avx512bf16")]] __m512i round_pairs(const float* from, std::int64_t left) {
  const std::uint32_t mask = left >= 2 * kPairsAtOnce ? ~0u : (1u << left) - 1;
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + kPairsAtOnce);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// to [pairs][width] = from [lines][K], rounded; further lines are 0. `width` is a multiple of kLinesAtOnce, the lines
// that are transposed at a time.
[[gnu::target("avx512f,avx512bf16")]] void pack_lines(const float* from, std::int64_t stride, std::int64_t lines,
                                                      std::int64_t K, std::int64_t width, Pair* to) {
  constexpr __mmask8 kEight = 0xff;  // g++ 12 takes the unmasked intrinsics for reads of uninitialised memory
  constexpr __mmask16 kSixteen = 0xffff;
  const std::int64_t pairs = divide_up(K, 2);
  for (std::int64_t line = 0; line < width; line += kLinesAtOnce) {
    for (std::int64_t p = 0; p < pairs; p += kPairsAtOnce) {
      __m512i four[kLinesAtOnce];
      for (std::int64_t i = 0; i < kLinesAtOnce; ++i) {
        four[i] =
            line + i < lines ? round_pairs(from + (line + i) * stride + 2 * p, K - 2 * p) : _mm512_setzero_si512();
      }
      const __m512i low01 = _mm512_maskz_unpacklo_epi32(kSixteen, four[0], four[1]),
                    high01 = _mm512_maskz_unpackhi_epi32(kSixteen, four[0], four[1]);
      const __m512i low23 = _mm512_maskz_unpacklo_epi32(kSixteen, four[2], four[3]),
                    high23 = _mm512_maskz_unpackhi_epi32(kSixteen, four[2], four[3]);
      alignas(64) Pair turned[4][kPairsAtOnce];  // [n][q][line]: pair 4q + n
      _mm512_store_si512(turned[0], _mm512_maskz_unpacklo_epi64(kEight, low01, low23));
      _mm512_store_si512(turned[1], _mm512_maskz_unpackhi_epi64(kEight, low01, low23));
      _mm512_store_si512(turned[2], _mm512_maskz_unpacklo_epi64(kEight, high01, high23));
      _mm512_store_si512(turned[3], _mm512_maskz_unpackhi_epi64(kEight, high01, high23));
      Pair* place = to + p * width + line;
      for (std::int64_t n = 0; n < std::min(kPairsAtOnce, pairs - p); ++n, place += width) {
        std::memcpy(place, turned[n % 4] + n / 4 * kLinesAtOnce, kLinesAtOnce * sizeof(Pair));
      }
    }
  }
}

// What a tile prefetches, `step` bytes per pair: its share of the next strip of B.
struct Ahead {
  const char* from;
  std::int64_t step;
};

// C [rows,columns] = A B (+ bias), with a [pairs][kRows] and b [pairs][kColumns].
[[gnu::target("avx512f,avx512bf16")]] void tile(const Pair* a, const Pair* b, std::int64_t pairs, const float* bias,
                                                std::int64_t rows, std::int64_t columns, float* c, std::int64_t stride,
                                                Ahead ahead) {
  const std::uint32_t mask = columns >= kColumns ? ~0u : (1u << columns) - 1;
  const __mmask16 halves[] = {static_cast<__mmask16>(mask), static_cast<__mmask16>(mask >> 16)};
  __m512 sum[kRows][2];
  for (std::int64_t r = 0; r < kRows; ++r) {
    sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    if (r < rows) __builtin_prefetch(c + r * stride, 1);
    if (r < rows && columns > kColumns / 2) __builtin_prefetch(c + r * stride + kColumns / 2, 1);
  }
  for (std::int64_t p = 0; p < pairs; ++p, a += kRows, b += kColumns, ahead.from += ahead.step) {
    __builtin_prefetch(ahead.from);
    const auto left = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
    const auto right = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + kColumns / 2));
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(a[r]));
      sum[r][0] = _mm512_dpbf16_ps(sum[r][0], factor, left);
      sum[r][1] = _mm512_dpbf16_ps(sum[r][1], factor, right);
    }
  }
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < kRows; ++r) {  // sums stay in registers if this is unrolled
    for (int w = 0; w < 2; ++w) {
      __m512 value = sum[r][w];
      if (bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(halves[w], bias + 16 * w));
      if (r < rows) _mm512_mask_storeu_ps(c + r * stride + 16 * w, halves[w], value);
    }
  }
}

}  // namespace

bool multiplies_pairs() {
  static const bool can = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
  return can && (hwy::SupportedTargets() & HWY_AVX3) != 0;
}

kernels::PackedMatrix pack_pairs(Team& team, const ConstTensorView& b) {
  const std::int64_t K = b.shape(0), N = b.shape(1), pairs = divide_up(K, 2), strips = divide_up(N, kColumns);
  kernels::PackedMatrix packed{.strips = Tensor::empty({strips, pairs, 2 * kColumns}, DType::bf16), .pairs = true};
  auto* to = static_cast<Pair*>(packed.strips.view().data());
  const int members = members_for(team, static_cast<double>(b.count()) / kMovedPerThread);
  team.for_each(b.count() == 0 ? 0 : strips, 1, members, [&](int) {
    return [&, to](std::int64_t strip) {
      const std::int64_t column = strip * kColumns;
      pack_lines(data_of<float>(b) + column * b.stride(1), b.stride(1), std::min(kColumns, N - column), K, kColumns,
                 to + strip * pairs * kColumns);
    };
  });
  return packed;
}

void pair_gemm(Team& team, const kernels::GemmProblem& problem) {
  const ConstTensorView &a = problem.a, &bias = problem.bias;
  const TensorView& c = problem.c;
  const std::int64_t M = c.shape(0), N = c.shape(1), K = a.shape(1), pairs = divide_up(K, 2);
  if (M * N == 0) return;
  const std::int64_t tiles = divide_up(M, kRows), strips = divide_up(N, kColumns), tile_size = kRows * pairs;
  const std::int64_t most = kPackedBytes / (std::max<std::int64_t>(tile_size, 1) * std::int64_t{sizeof(Pair)});
  const std::int64_t blocks = divide_up(tiles, std::clamp<std::int64_t>(most, 4, 64));
  const int members = members_for(team, static_cast<double>(M * N) * static_cast<double>(K) / kWorkPerThread);
  constexpr std::int64_t kItemsPerMember = 16;  // enough that a delayed thread does not delay the others
  const std::int64_t parts = std::clamp<std::int64_t>(divide_up(kItemsPerMember * members, blocks), 1, strips);
  const auto* b = static_cast<const Pair*>(problem.packed->strips.view().data());
  const auto* biases = bias.present() ? data_of<float>(bias) : nullptr;
  // A, packed for all members: [tile][pairs][kRows].
  auto* packed = reinterpret_cast<Pair*>(team.scratch(0).reserve(static_cast<std::size_t>(tiles * tile_size) * 4));
  team.for_each(tiles, 1, members, [&](int) {
    return [&](std::int64_t n) {
      pack_lines(data_of<float>(a) + n * kRows * a.stride(0), a.stride(0), std::min(kRows, M - n * kRows), K, kRows,
                 packed + n * tile_size);
    };
  });
  team.for_each(blocks * parts, 1, members, [&](int) {
    return [&](std::int64_t item) {
      const std::int64_t block = item / parts, part = item % parts;
      const std::int64_t begin = tiles * block / blocks, end = tiles * (block + 1) / blocks;
      for (std::int64_t strip = strips * part / parts; strip < strips * (part + 1) / parts; ++strip) {
        const std::int64_t column = strip * kColumns, step = kColumns * std::int64_t{sizeof(Pair)} / (end - begin);
        const Pair *strip_b = b + strip * pairs * kColumns, *next = strip_b + (strip + 1 < strips) * pairs * kColumns;
        for (std::int64_t n = begin; n < end; ++n) {
          tile(packed + n * tile_size, strip_b, pairs, biases == nullptr ? nullptr : biases + column, M - n * kRows,
               N - column, data_of<float>(c) + n * kRows * c.stride(0) + column, c.stride(0),
               {reinterpret_cast<const char*>(next) + (n - begin) * step * pairs, step});
        }
      }
    };
  });
}

}  // namespace polyhead::cpu

#else

namespace polyhead::cpu {

bool multiplies_pairs() { return false; }
kernels::PackedMatrix pack_pairs(Team&, const ConstTensorView&) { return {}; }
void pair_gemm(Team&, const kernels::GemmProblem&) {}

}  // namespace polyhead::cpu

#endif
