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

inline void load(std::uint32_t (&r)[4], const void* row, bool transposed) {
  const int pair = 2 * (emulator::lane() % 4), line = emulator::lane() / 4;
  emulator::gather(static_cast<const std::uint16_t*>(row), 0, [&](const auto& row_of, const auto&) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto at = [&](int n, int column) { return row_of(8 * matrix + n) + column; };
      r[matrix] = transposed ? two_of(at(pair, line), at(pair + 1, line)) : two_of(at(line, pair), at(line, pair + 1));
    }
  });
}

}  // namespace detail

inline void load_matrices(std::uint32_t (&r)[4], const void* row) { detail::load(r, row, false); }
inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) { detail::load(r, row, true); }

namespace detail {

// Registers hold kNumbers each: number(bits, which).
template <int kNumbers, class Number>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  const Number& number) {
  struct Four {
    std::uint32_t r[4];
  };
  struct Two {
    std::uint32_t r[2];
  };
  const Four own_a{{a[0], a[1], a[2], a[3]}};
  const Two own_b{{b0, b1}};
  const int lane = emulator::lane();
  float sums[4] = {c[0], c[1], c[2], c[3]};
  // A row is spread over the four lanes 4 row + t, a column of B likewise.
  Four rows[4];
  Two columns[2][4];
  emulator::gather(own_a, own_b, [&](const auto& a_of, const auto& b_of) {
    for (int t = 0; t < 4; ++t) {
      rows[t] = a_of(lane / 4 * 4 + t);
      for (int n = 0; n < 2; ++n) columns[n][t] = b_of((2 * (lane % 4) + n) * 4 + t);
    }
  });
  for (int half = 0; half < 2; ++half) {
    for (int n = 0; n < 2; ++n) {
      for (int t = 0; t < 4; ++t) {
        for (int k = 0; k < kNumbers; ++k) {
          sums[2 * half + n] += number(rows[t].r[half], k) * number(columns[n][t].r[0], k);
          sums[2 * half + n] += number(rows[t].r[2 + half], k) * number(columns[n][t].r[1], k);
        }
      }
    }
  }
  for (int n = 0; n < 4; ++n) c[n] = sums[n];
}

}  // namespace detail

template <class T>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  detail::multiply_add<2>(c, a, b0, b1, detail::number<T>);
}
inline void multiply_add_tf32(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  detail::multiply_add<1>(c, a, b[0], b[1],
                          [](std::uint32_t bits, int) { return std::bit_cast<float>(bits & 0xffffe000u); });
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
