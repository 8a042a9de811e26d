// What src/cuda/device/mma.cuh says in PTX, by plain loops.
#pragma once

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

template <class T>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
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
  Four rows[2][4];
  Two columns[2][4];
  emulator::gather(own_a, own_b, [&](const auto& a_of, const auto& b_of) {
    for (int t = 0; t < 4; ++t) {
      rows[0][t] = rows[1][t] = a_of(lane / 4 * 4 + t);
      for (int n = 0; n < 2; ++n) columns[n][t] = b_of((2 * (lane % 4) + n) * 4 + t);
    }
  });
  for (int half = 0; half < 2; ++half) {
    for (int n = 0; n < 2; ++n) {
      for (int t = 0; t < 4; ++t) {
        for (int k = 0; k < 2; ++k) {
          sums[2 * half + n] += detail::number<T>(rows[half][t].r[half], k) * detail::number<T>(columns[n][t].r[0], k);
          sums[2 * half + n] +=
              detail::number<T>(rows[half][t].r[2 + half], k) * detail::number<T>(columns[n][t].r[1], k);
        }
      }
    }
  }
  for (int n = 0; n < 4; ++n) c[n] = sums[n];
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
