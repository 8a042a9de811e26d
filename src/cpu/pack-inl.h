// Packing: lines of a matrix (rows of A, columns of B) side by side, so that a register tile reads both its operands in
// one stream.
#if defined(POLYHEAD_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_PACK_INL_H_
#undef POLYHEAD_CPU_PACK_INL_H_
#else
#define POLYHEAD_CPU_PACK_INL_H_
#endif

#include "cpu/products-inl.h"
#include "cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Elements of a line that are widened at a time, before they are transposed.
inline constexpr std::size_t kWidened = 64;

// Columns of B that are packed side by side, as a strip.
template <class T>
inline constexpr std::size_t kStrip = 2 * kLanes<T>;

struct Range {
  std::int64_t begin, end;

  std::size_t size() const { return static_cast<std::size_t>(end - begin); }
};
// Part i of [0, n) cut into `parts` nearly equal ones.
inline Range part_of(std::int64_t n, std::int64_t i, std::int64_t parts) {
  return {n * i / parts, n * (i + 1) / parts};
}
inline std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

inline const std::byte* element(const ConstTensorView& x, std::int64_t i, std::int64_t j) {
  return static_cast<const std::byte*>(x.data()) +
         (i * x.stride(0) + j * x.stride(1)) * static_cast<std::int64_t>(size_of(x.dtype()));
}

template <class T>
const T* first_of(const ConstTensorView& x, Range lines, Range k) {
  return reinterpret_cast<const T*>(element(x, lines.begin, k.begin));
}

// Copies rows of kCount numbers: with a known count memcpy is a few moves instead of a call.
template <class T, std::size_t kCount>
void copy_rows(const T* from, std::ptrdiff_t from_stride, std::size_t rows, T* to, std::size_t to_stride) {
  for (std::size_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    std::memcpy(to, from, kCount * sizeof(T));
  }
}

// to[k][line] = x[line][k] for a range of lines of x [lines,K] and a range of k; to [k][to_stride] has room for lines
// rounded up to four. widened [lines][kWidened] is used where x is not T.
template <class T>
void pack_lines(const ConstTensorView& x, Range lines, Range k, T* widened, T* to, std::size_t to_stride) {
  const bool as_it_is = x.dtype() == dtype_of<T>;
  if (x.stride(1) != 1) {  // contiguous across lines
    if (as_it_is && lines.size() == kStrip<T>) {
      return copy_rows<T, kStrip<T>>(first_of<T>(x, lines, k), x.stride(1), k.size(), to, to_stride);
    }
    if (as_it_is && lines.size() <= kTileRows) {
      return with_height(static_cast<int>(lines.size()), 0, [&](std::size_t, auto height) {
        copy_rows<T, decltype(height)::value>(first_of<T>(x, lines, k), x.stride(1), k.size(), to, to_stride);
      });
    }
    for (std::int64_t n = k.begin; n < k.end; ++n, to += to_stride) {
      const std::byte* from = element(x, lines.begin, n);
      as_it_is ? void(std::memcpy(to, from, lines.size() * sizeof(T))) : widen(from, x.dtype(), lines.size(), to);
    }
  } else if (as_it_is) {
    transpose(first_of<T>(x, lines, k), static_cast<std::size_t>(x.stride(0)), lines.size(), k.size(), T{1}, to,
              to_stride);
  } else {
    for (std::int64_t n = k.begin; n < k.end; n += kWidened) {
      const std::size_t count = std::min<std::size_t>(kWidened, static_cast<std::size_t>(k.end - n));
      for (std::int64_t line = lines.begin; line < lines.end; ++line) {
        widen(element(x, line, n), x.dtype(), count, widened + (line - lines.begin) * kWidened);
      }
      transpose(widened, kWidened, lines.size(), count, T{1}, to + (n - k.begin) * to_stride, to_stride);
    }
  }
}

// The same of bf16, or of f32 that is rounded to it, with k in pairs.
template <class U>
requires std::is_same_v<U, Pair>
void pack_lines(const ConstTensorView& x, Range lines, Range k, Pair* widened, Pair* to, std::size_t to_stride) {
  const std::int64_t K = x.shape(1);
  const bool rounds = x.dtype() == DType::f32;
  if (x.stride(1) != 1) {
    for (std::int64_t n = k.begin; n < k.end; ++n, to += to_stride) {
      const std::byte *first = element(x, lines.begin, 2 * n),
                      *second = 2 * n + 1 < K ? element(x, lines.begin, 2 * n + 1) : nullptr;
      rounds
          ? zip_rounded(reinterpret_cast<const float*>(first), reinterpret_cast<const float*>(second), lines.size(), to)
          : zip(reinterpret_cast<const bfloat16*>(first), reinterpret_cast<const bfloat16*>(second), lines.size(), to);
    }
    return;
  }
  for (std::int64_t n = k.begin; n < k.end; n += kWidened) {
    const std::int64_t count = std::min<std::int64_t>(kWidened, k.end - n);
    const auto numbers = static_cast<std::size_t>(std::min(2 * count, K - 2 * n));
    for (std::int64_t line = lines.begin; line < lines.end; ++line) {
      const std::byte* from = element(x, line, 2 * n);
      Pair* row = widened + (line - lines.begin) * kWidened;
      rounds ? pair_up_rounded(reinterpret_cast<const float*>(from), numbers, row)
             : pair_up(reinterpret_cast<const bfloat16*>(from), numbers, row);
    }
    transpose(widened, kWidened, lines.size(), static_cast<std::size_t>(count), Pair{1},
              to + (n - k.begin) * static_cast<std::int64_t>(to_stride), to_stride);
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
