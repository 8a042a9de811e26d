// Products of bf16 by bf16 on instructions that multiply such numbers in pairs and add in f32: AVX512-BF16, at twice
// the speed of f32. Highway has no name for them yet.
#include "cpu/pair_gemm.h"

#include <algorithm>
#include <cstring>

#include "cpu/carver.h"
#include "cpu/kernels.h"
#include "cpu/split.h"

#if defined(__x86_64__)
#include <hwy/detect_targets.h>
#include <immintrin.h>

namespace polyhead::cpu {
namespace {

using Pair = std::int32_t;  // two bf16 that follow each other in K; the last of an odd K has 0 beside it

constexpr std::int64_t kRows = 12, kColumns = 32;  // of a register tile; a strip of B has as many columns
constexpr std::int64_t kPackedBytes = 256 * 1024;  // of L2, which the A of a block may take: B is read once for each

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// Tiles of rows in a block.
std::int64_t tiles_for(std::int64_t pairs) {
  return std::clamp<std::int64_t>(kPackedBytes / (kRows * pairs * static_cast<std::int64_t>(sizeof(Pair))), 4, 32);
}

struct Workspace {
  Workspace(Carver& carver, std::int64_t pairs)
      : a(carver.take<Pair>(static_cast<std::size_t>(tiles_for(pairs) * kRows * pairs))),
        b(carver.take<Pair>(static_cast<std::size_t>(kColumns * pairs))) {}

  Pair* a;  // [tile][pairs][kRows]
  Pair* b;  // [pairs][kColumns]
};

// Rows [begin, end) of A, the last tile filled up with 0.
void pack_rows(const ConstTensorView& a, std::int64_t begin, std::int64_t end, Pair* to) {
  const std::int64_t K = a.shape(1), pairs = divide_up(K, 2), tiles = divide_up(end - begin, kRows);
  std::fill_n(to + (tiles - 1) * pairs * kRows, pairs * kRows, 0);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t n = row - begin;
    const auto* from = data_of<std::uint16_t>(a) + row * a.stride(0);
    Pair* line = to + n / kRows * pairs * kRows + n % kRows;
    for (std::int64_t k = 0; k + 1 < K; k += 2, line += kRows) std::memcpy(line, from + k, sizeof(Pair));
    if (K % 2 == 1) *line = from[K - 1];
  }
}

// A strip of B [K][kColumns], two rows in one.
[[gnu::target("avx512f,avx512bw")]] void pair_rows(const std::uint16_t* from, std::int64_t K, Pair* to) {
  alignas(64) std::uint16_t order[2 * kColumns];
  for (std::uint16_t n = 0; n < kColumns; ++n) {
    order[2 * n] = n;
    order[2 * n + 1] = static_cast<std::uint16_t>(n + kColumns);
  }
  const __m512i left = _mm512_load_si512(order), right = _mm512_load_si512(order + kColumns);
  for (std::int64_t k = 0; k < K; k += 2, from += 2 * kColumns, to += kColumns) {
    const __m512i even = _mm512_loadu_si512(from);
    const __m512i odd = k + 1 < K ? _mm512_loadu_si512(from + kColumns) : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(even, left, odd));
    _mm512_storeu_si512(to + kColumns / 2, _mm512_permutex2var_epi16(even, right, odd));
  }
}

// C [rows,columns] = A B (+ bias), with a [pairs][kRows] and b [pairs][kColumns].
[[gnu::target("avx512f,avx512bf16")]] void tile(const Pair* a, const Pair* b, std::int64_t pairs, const float* bias,
                                                std::int64_t rows, std::int64_t columns, float* c,
                                                std::int64_t stride) {
  __m512 sum[kRows][2];
  for (auto& row : sum) row[0] = row[1] = _mm512_setzero_ps();
  for (std::int64_t p = 0; p < pairs; ++p, a += kRows, b += kColumns) {
    const auto left = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
    const auto right = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + kColumns / 2));
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(a[r]));
      sum[r][0] = _mm512_dpbf16_ps(sum[r][0], factor, left);
      sum[r][1] = _mm512_dpbf16_ps(sum[r][1], factor, right);
    }
  }
  const std::uint32_t mask = columns >= kColumns ? ~0u : (1u << columns) - 1;
  const __mmask16 halves[] = {static_cast<__mmask16>(mask), static_cast<__mmask16>(mask >> 16)};
  for (std::int64_t r = 0; r < kRows && r < rows; ++r) {
    for (int w = 0; w < 2; ++w) {
      __m512 value = sum[r][w];
      if (bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(halves[w], bias + 16 * w));
      _mm512_mask_storeu_ps(c + r * stride + 16 * w, halves[w], value);
    }
  }
}

}  // namespace

bool multiplies_pairs(const backend::GemmProblem& problem) {
  static const bool can = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
  return can && problem.packed != nullptr && problem.packed->target == HWY_AVX3 &&
         problem.packed->strips.dtype() == DType::bf16 && problem.a.dtype() == DType::bf16 &&
         problem.c.dtype() == DType::f32 && problem.a.stride(1) == 1 && problem.a.shape(1) > 0;
}

void pair_gemm(Team& team, const backend::GemmProblem& problem) {
  const ConstTensorView &a = problem.a, &bias = problem.bias;
  const std::int64_t M = problem.c.shape(0), N = problem.c.shape(1), K = a.shape(1), pairs = divide_up(K, 2);
  if (M * N == 0) return;
  const std::int64_t blocks = divide_up(M, tiles_for(pairs) * kRows), strips = divide_up(N, kColumns);
  const int members = members_for(team, static_cast<double>(M * N) * static_cast<double>(K) / kWorkPerThread);
  constexpr std::int64_t kItemsPerMember = 8;  // so that a thread which is held up holds nobody else up
  const std::int64_t parts = std::clamp<std::int64_t>(divide_up(kItemsPerMember * members, blocks), 1, strips);
  for (int member = 0; member < members; ++member) carve<Workspace>(team.scratch(member), pairs);  // may fail: first
  const auto* b = reinterpret_cast<const std::uint16_t*>(problem.packed->strips.as<bfloat16>());
  const auto* biases = bias.present() ? data_of<float>(bias) : nullptr;
  team.for_each(blocks * parts, 1, members, [&](int member) {
    return
        [&, w = carve<Workspace>(team.scratch(member), pairs), packed = std::int64_t{-1}](std::int64_t item) mutable {
          const std::int64_t block = item / parts, part = item % parts;
          const std::int64_t begin = M * block / blocks, end = M * (block + 1) / blocks;
          if (block != packed) pack_rows(a, begin, end, w.a);
          packed = block;
          for (std::int64_t strip = strips * part / parts; strip < strips * (part + 1) / parts; ++strip) {
            const std::int64_t column = strip * kColumns;
            pair_rows(b + column * K, K, w.b);
            for (std::int64_t row = begin; row < end; row += kRows) {
              tile(w.a + (row - begin) * pairs, w.b, pairs, biases == nullptr ? nullptr : biases + column, end - row,
                   N - column, data_of<float>(problem.c) + row * problem.c.stride(0) + column, problem.c.stride(0));
            }
          }
        };
  });
}

}  // namespace polyhead::cpu

#else

namespace polyhead::cpu {

bool multiplies_pairs(const backend::GemmProblem&) { return false; }
void pair_gemm(Team&, const backend::GemmProblem&) {}

}  // namespace polyhead::cpu

#endif
