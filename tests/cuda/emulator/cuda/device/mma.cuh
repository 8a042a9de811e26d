// What src/cuda/device/mma.cuh says in PTX, by plain loops.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "grid.h"

namespace polyhead::cuda::device {

inline std::byte* dynamic_shared() { return emulator::dynamic_shared(); }

namespace detail {

inline std::uint32_t two_of(const std::uint16_t* low, const std::uint16_t* high) {
  return static_cast<std::uint32_t>(*low) | static_cast<std::uint32_t>(*high) << 16;
}
template <class T>
float number(std::uint32_t two, int which) {
  const auto bits = static_cast<std::uint16_t>(two >> (16 * which));
  T value;
  std::memcpy(&value, &bits, 2);
  return static_cast<float>(value);
}

struct MatrixLoad {
  const std::uint16_t* row;
  std::uint32_t* r;
};
template <bool kTransposed>
void load(std::uint32_t (&r)[4], const void* row) {
  MatrixLoad own{static_cast<const std::uint16_t*>(row), r};
  emulator::meet(&own, [](void* const* lanes) {
    const auto of = [&](int n) { return static_cast<const MatrixLoad*>(lanes[n]); };
    for (int lane = 0; lane < 32; ++lane) {
      const int pair = 2 * (lane % 4), line = lane / 4;
      for (int matrix = 0; matrix < 4; ++matrix) {
        const auto at = [&](int n, int column) { return of(8 * matrix + n)->row + column; };
        of(lane)->r[matrix] =
            kTransposed ? two_of(at(pair, line), at(pair + 1, line)) : two_of(at(line, pair), at(line, pair + 1));
      }
    }
  });
}

}  // namespace detail

inline void load_matrices(std::uint32_t (&r)[4], const void* row) { detail::load<false>(r, row); }
inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) { detail::load<true>(r, row); }

namespace detail {

struct Product {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};
typedef float EightFloats __attribute__((vector_size(32)));

// The product of a warp, by the lane that comes last. Registers hold kNumbers each: number(bits, which). A row of A is
// spread over the four lanes 4 row + t, a column of B likewise.
template <int kNumbers, float (*number)(std::uint32_t, int)>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  Product own{c, a, {b0, b1}};
  emulator::meet(&own, [](void* const* lanes) {
    const auto of = [&](int lane) { return static_cast<const Product*>(lanes[lane]); };
    constexpr int kDepth = 8 * kNumbers;
    EightFloats b[kDepth];
    const auto for_depth = [](const auto& what) {
      for (int t = 0; t < 4; ++t) {
        for (int k = 0; k < kNumbers; ++k) {
          for (int r = 0; r < 2; ++r) what(t, k, r, 2 * (kNumbers * t + k) + r);
        }
      }
    };
    for (int column = 0; column < 8; ++column) {
      for_depth([&](int t, int k, int r, int at) { b[at][column] = number(of(4 * column + t)->b[r], k); });
    }
    for (int row = 0; row < 16; ++row) {
      const int first = 4 * (row % 8), half = row / 8;
      EightFloats sums;
      for (int n = 0; n < 8; ++n) sums[n] = of(first + n / 2)->c[2 * half + n % 2];
      for_depth([&](int t, int k, int r, int at) { sums += number(of(first + t)->a[half + 2 * r], k) * b[at]; });
      for (int n = 0; n < 8; ++n) of(first + n / 2)->c[2 * half + n % 2] = sums[n];
    }
  });
}
inline float tf32_number(std::uint32_t bits, int) { return std::bit_cast<float>(bits & 0xffffe000u); }

}  // namespace detail

template <class T>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  detail::multiply_add<2, detail::number<T>>(c, a, b0, b1);
}
inline void multiply_add_tf32(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  detail::multiply_add<1, detail::tf32_number>(c, a, b[0], b[1]);
}
inline std::uint32_t to_tf32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000u) & 0xffffe000u : bits;
}

template <class T>
std::uint32_t pack(float low, float high) {
  const T values[2] = {T(low), T(high)};
  std::uint32_t two;
  std::memcpy(&two, values, 4);
  return two;
}

inline void copy_later(void* to, const void* from, bool there) {
  there ? std::memcpy(to, from, 16) : std::memset(to, 0, 16);
}
inline void copy_number_later(float* to, const float* from, bool there) { *to = there ? *from : 0.0f; }
inline void commit_copies() {}
template <int>
void wait_for_copies() {}

inline float exp2_of(float x) { return std::exp2(x); }
inline float tanh_of(float x) { return std::fma(-2.0f, 1 / (1 + exp2_of(2.885390082f * x)), 1.0f); }

}  // namespace polyhead::cuda::device
