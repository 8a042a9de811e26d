// Tiles in shared memory, and the products of a warp's rows with them on the tensor cores: of 16-bit numbers, or of
// f32. What differs is in Operand, and in how a matrix is read by columns.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/philox.h"
#include "cuda/device/mma.cuh"
#include "cuda/device/quad.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda::portable {

// What kernels multiply, besides __half and __nv_bfloat16: f32 rounded to TF32, whose mantissa has 10 bits, or split
// into two such parts, whose products are exact f32 but for their last bit or two.
struct Tf32 {};
struct SplitF32 {};

template <class T>
struct ElementOf {
  using Type = T;
};
template <>
struct ElementOf<Tf32> {
  using Type = float;
};
template <>
struct ElementOf<SplitF32> {
  using Type = float;
};
// As tensors hold it.
template <class T>
using Element = typename ElementOf<T>::Type;

// Columns of A and rows of B in one product: 32 bytes.
template <class T>
inline constexpr int kDepth = 32 / static_cast<int>(sizeof(Element<T>));

// How many of them in a row are one text: those of split numbers are long, and wide heads need their registers.
template <class T, int kWidth>
inline constexpr int kUnrolled = std::is_same_v<T, SplitF32> ? (kWidth > 64 ? 1 : 2) : 16;

// A lane's part of A [16,kDepth] (kCount 4) or B [kDepth,8] (kCount 2), ready to be multiplied.
template <class T, int kCount>
struct Operand {
  std::uint32_t of[kCount];

  Operand() = default;
  __device__ explicit Operand(const std::uint32_t (&raw)[kCount]) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) of[n] = raw[n];
  }
};
template <int kCount>
struct Operand<Tf32, kCount> {
  std::uint32_t of[kCount];

  Operand() = default;
  __device__ explicit Operand(const std::uint32_t (&raw)[kCount]) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) of[n] = device::to_tf32(__uint_as_float(raw[n]));
  }
};
// high + low = the number, but for a bit or two of low that the product does not read.
template <int kCount>
struct Operand<SplitF32, kCount> {
  std::uint32_t high[kCount], low[kCount];

  Operand() = default;
  __device__ explicit Operand(const std::uint32_t (&raw)[kCount]) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const float x = __uint_as_float(raw[n]);
      high[n] = device::to_tf32(x);
      low[n] = __float_as_uint(x - __uint_as_float(high[n]));
    }
  }
};

// c += A B. kSwapped: with the bits of c^T += B^T A^T.
template <class T, bool kSwapped>
__device__ void multiply_add(float (&c)[4], const Operand<T, 4>& a, const Operand<T, 2>& b) {
  if constexpr (std::is_same_v<T, Tf32>) {
    device::multiply_add_tf32(c, a.of, b.of);
  } else if constexpr (std::is_same_v<T, SplitF32>) {
    // The tensor cores truncate their sums: those of eight terms are added up by themselves, and then rounded.
    float sums[4] = {};
    device::multiply_add_tf32(sums, kSwapped ? a.high : a.low, kSwapped ? b.low : b.high);
    device::multiply_add_tf32(sums, kSwapped ? a.low : a.high, kSwapped ? b.high : b.low);
    device::multiply_add_tf32(sums, a.high, b.high);
#pragma unroll
    for (int n = 0; n < 4; ++n) c[n] += sums[n];
  } else {
    device::multiply_add<T>(c, a.of, b.of[0], b.of[1]);
  }
}

// x as a product takes it.
template <class T>
__device__ float rounded_as(float x) {
  return to_float(T(x));
}
template <>
__device__ inline float rounded_as<Tf32>(float x) {
  return __uint_as_float(device::to_tf32(x));
}
template <>
__device__ inline float rounded_as<SplitF32>(float x) {
  return x;
}

// For numbers of 16 bits, or to the last digit.
template <class T>
__device__ float tanh_as(float x) {
  return sizeof(Element<T>) == 2 ? device::tanh_of(x) : tanhf(x);
}

// [kRows][kWidth] in pieces of 16 bytes, swizzled so that eight rows of one column of pieces cover all banks.
template <class T, int kRows, int kWidth>
struct TileOf {
  static constexpr int kPiece = 16 / sizeof(Element<T>), kPieces = kWidth / kPiece;
  static constexpr std::size_t kBytes = std::size_t{kRows} * kPieces * 16;
  static_assert(kPieces >= 8);
  std::byte* data;

  __device__ void* at(int row, int piece) const { return data + (row * kPieces + (piece ^ (row & 7))) * 16; }

  // Queues copies of rows that lie `stride` elements apart; zeros for those that are not there, and from column `width`
  // on. A thread copies the same piece of every kStep-th row.
  template <int kThreads, class There>
  __device__ void load_later(const Element<T>* from, std::int64_t stride, int width, const There& there) const {
    constexpr int kStep = kThreads / kPieces;
    static_assert(kThreads % kPieces == 0 && kRows % kStep == 0);
    const int piece = threadIdx.x % kPieces, first = threadIdx.x / kPieces;
    const Element<T>* row = from + first * stride + piece * kPiece;
#pragma unroll
    for (int n = 0; n < kRows / kStep; ++n, row += kStep * stride) {
      const bool here = (piece * kPiece < width) & there(first + n * kStep);
      device::copy_later(at(first + n * kStep, piece), row, here);
    }
  }
};

// A lane's part of 16 rows and kColumns columns, as products leave it.
template <int kColumns>
struct Sums {
  float of[kColumns / 8][4];

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int k = 0; k < 4; ++k) of[n][k] = 0;
    }
  }
};

// s [16 kBlocks][kKeys] += A B^T: the products of a warp's rows, from `row` on, with all rows of B. kSwapped: with the
// bits that B A^T has.
template <class T, int kBlocks, int kKeys, int kWidth, bool kSwapped, class TileA, class TileB>
__device__ void multiply_rows(Sums<kKeys> (&s)[kBlocks], const TileA& a, int row, const TileB& b) {
  const int lane = threadIdx.x % 32;
  constexpr int kInARow = kUnrolled<T, kWidth>;
#pragma unroll kInARow
  for (int k = 0; k < kWidth / kDepth<T>; ++k) {
    Operand<T, 4> x[kBlocks];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      std::uint32_t raw[4];
      device::load_matrices(raw, a.at(row + 16 * block + lane % 16, 2 * k + lane / 16));
      x[block] = Operand<T, 4>(raw);
    }
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      std::uint32_t raw[4];
      device::load_matrices(raw, b.at(16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
      const Operand<T, 2> y[2] = {Operand<T, 2>({raw[0], raw[1]}), Operand<T, 2>({raw[2], raw[3]})};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        multiply_add<T, kSwapped>(s[block].of[2 * n], x[block], y[0]);
        multiply_add<T, kSwapped>(s[block].of[2 * n + 1], x[block], y[1]);
      }
    }
  }
}

// Weights [16][kKeys] as the left operand of a product with [kKeys][..].
template <class T, int kKeys>
using PackedWeights = std::uint32_t[kKeys / kDepth<T>][4];

// From the sums of another product. Two neighbouring keys of f32, which are one lane's there, stand for two keys that
// are four apart here: load_columns has the same order.
template <class T, int kKeys>
__device__ void pack_weights(PackedWeights<T, kKeys>& p, const Sums<kKeys>& s) {
#pragma unroll
  for (int k = 0; k < kKeys / kDepth<T>; ++k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (sizeof(Element<T>) == 2) {
        p[k][2 * half] = device::pack<T>(s.of[2 * k + half][0], s.of[2 * k + half][1]);
        p[k][2 * half + 1] = device::pack<T>(s.of[2 * k + half][2], s.of[2 * k + half][3]);
      } else {
        p[k][2 * half] = __float_as_uint(s.of[k][half]);
        p[k][2 * half + 1] = __float_as_uint(s.of[k][2 + half]);
      }
    }
  }
}

// Rows [kDepth k, kDepth (k + 1)) and columns [column, column + 16) of a tile as two operands B.
template <class T, class Tile>
__device__ void load_columns(std::uint32_t (&raw)[4], const Tile& tile, int k, int column) {
  const int lane = threadIdx.x % 32;
  if constexpr (sizeof(Element<T>) == 2) {
    device::load_matrices_transposed(raw, tile.at(16 * k + lane % 16, column / 8 + lane / 16));
  } else {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int row = 8 * k + lane % 4 * 2 + n % 2, at = column + n / 2 * 8 + lane / 4;
      raw[n] = static_cast<const std::uint32_t*>(tile.at(row, at / 4))[at % 4];
    }
  }
}

// sums [16 kBlocks][kColumns] += P X: P [..][kKeys] in registers, X [kKeys][..] from `column` on.
template <class T, int kBlocks, int kKeys, int kColumns, class Tile>
__device__ void multiply_weights(Sums<kColumns> (&sums)[kBlocks], const PackedWeights<T, kKeys> (&p)[kBlocks],
                                 const Tile& x, int column) {
#pragma unroll
  for (int k = 0; k < kKeys / kDepth<T>; ++k) {
    Operand<T, 4> weights[kBlocks];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) weights[block] = Operand<T, 4>(p[block][k]);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t raw[4];
      load_columns<T>(raw, x, k, column + 16 * n);
      const Operand<T, 2> y[2] = {Operand<T, 2>({raw[0], raw[1]}), Operand<T, 2>({raw[2], raw[3]})};
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        multiply_add<T, false>(sums[block].of[2 * n], weights[block], y[0]);
        multiply_add<T, false>(sums[block].of[2 * n + 1], weights[block], y[1]);
      }
    }
  }
}

// Writes two neighbouring numbers of a row.
__device__ inline void store_pair(float* to, float x, float y) { *reinterpret_cast<float2*>(to) = {x, y}; }
template <class T>
__device__ void store_pair(T* to, float x, float y) {
  *reinterpret_cast<std::uint32_t*>(to) = device::pack<T>(x, y);
}

}  // namespace polyhead::cuda::portable
