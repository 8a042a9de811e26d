// The two products of attention, tile by tile, by 256 threads in f32. Thread (ty, tx) of 16 x 16 has rows 4 ty + r and
// keys 4 tx + c of a tile, or columns own_column(k), so that the 16 threads of a row are half a warp.
#pragma once

#include <cstdint>

#include "cuda/portable/numbers.cuh"
#include "kernels/mask.h"

namespace polyhead::cuda::portable {

inline constexpr int kTile = 64;      // rows, and keys
inline constexpr int kChunk = 32;     // terms of a product's sums that are in shared memory at a time
inline constexpr int kColumns = 128;  // of D or E that a block works on; wider heads take several blocks
inline constexpr int kThreads = 256;

// Tiles for so many rows or keys, and blocks for a head of such a width.
constexpr int tiles_of(std::int64_t count) { return static_cast<int>((count + kTile - 1) / kTile); }
constexpr int parts_of(std::int64_t width) {
  return width <= kColumns ? 1 : static_cast<int>((width + kColumns - 1) / kColumns);
}

inline constexpr std::int64_t kAbsent = -1;  // a row that is not there: zeros

// A query of a tile, and the keys that it sees.
struct TileRow {
  kernels::KeySet<int> keys;
  long long p;  // its position among the keys
  int i;        // its number in the sequence; -1: no such query
};

// Transposed, so that a thread reads four rows at once; kPadded keeps them at multiples of 16 bytes.
inline constexpr int kPadded = kTile + 4;

struct alignas(16) Shared {
  struct Operands {
    float a[kChunk][kPadded], b[kChunk][kPadded];
  };
  union {
    Operands operands;
    float x[kChunk][kColumns];
  };
  float p[kTile][kPadded];  // [c][r]: row r and column c, which is what a product sums over
  TileRow rows[kTile];
  int seen[kTile];  // whether any row of the tile sees the key
};

// The maximum and the sum over the threads of a row.
__device__ inline float row_max(float x) {
  for (int offset = 8; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}
__device__ inline float row_sum(float x) {
  for (int offset = 8; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// to [kChunk][kTile] = columns [d0, d0 + kChunk) of the rows, transposed; offset_of(r) is where row r begins. A thread
// takes four columns of a row at a time, and its neighbours the same of the next rows: few of their stores meet in a
// bank.
template <class OffsetOf>
__device__ void load_chunk(float (&to)[kChunk][kPadded], const void* data, DType dtype, const OffsetOf& offset_of,
                           int d0, int width) {
  constexpr int kPieces = kChunk / 4;
  with_type(dtype, [&](auto one) {
    const auto* from = static_cast<const decltype(one)*>(data);
#pragma unroll
    for (int n = threadIdx.x; n < kTile * kPieces; n += kThreads) {
      const int r = n / (8 * kPieces) * 8 + n % 8, d = n / 8 % kPieces * 4;
      const std::int64_t at = offset_of(r);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        to[d + i][r] = at >= 0 && d0 + d + i < width ? to_float(from[at + d0 + d + i]) : 0.0f;
      }
    }
  });
}

__device__ inline float4 four_of(const float* numbers) { return *reinterpret_cast<const float4*>(numbers); }

// s [kTile][kTile] += A B^T: the dot products of rows of A with rows of B, which are `width` wide. A thread has rows
// 4 ty + r and columns 4 tx + c.
template <class OffsetOfA, class OffsetOfB>
__device__ void add_dots(Shared& sm, const void* a, DType a_type, const OffsetOfA& a_row, const void* b, DType b_type,
                         const OffsetOfB& b_row, int width, float (&s)[4][4]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for (int d0 = 0; d0 < width; d0 += kChunk) {
    __syncthreads();
    load_chunk(sm.operands.a, a, a_type, a_row, d0, width);
    load_chunk(sm.operands.b, b, b_type, b_row, d0, width);
    __syncthreads();
    // Eight products are summed on their own: the fewer terms a sum has, the less it loses.
#pragma unroll 1
    for (int begin = 0; begin < kChunk; begin += 8) {
      float part[4][4] = {};
#pragma unroll
      for (int d = begin; d < begin + 8; ++d) {
        const float4 left = four_of(&sm.operands.a[d][4 * ty]), right = four_of(&sm.operands.b[d][4 * tx]);
        const float x[4] = {left.x, left.y, left.z, left.w}, y[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
          for (int c = 0; c < 4; ++c) part[r][c] = fmaf(x[r], y[c], part[r][c]);
        }
      }
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) s[r][c] += part[r][c];
      }
    }
  }
}

// sm.p <- value(r, c) of the thread's rows r and columns c, as [column][row]; transposed, as [row][column].
template <class Value>
__device__ void set_weights(Shared& sm, const Value& value) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    *reinterpret_cast<float4*>(&sm.p[4 * tx + c][4 * ty]) = {value(0, c), value(1, c), value(2, c), value(3, c)};
  }
}
template <class Value>
__device__ void set_weights_transposed(Shared& sm, const Value& value) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    *reinterpret_cast<float4*>(&sm.p[4 * ty + r][4 * tx]) = {value(r, 0), value(r, 1), value(r, 2), value(r, 3)};
  }
}

// Column k of the eight of kColumns that a thread has.
__device__ inline int own_column(int k) {
  return k / 4 * (kColumns / 2) + static_cast<int>(threadIdx.x) % 16 * 4 + k % 4;
}

// sums [kTile][kColumns] += P X for P in sm.p and columns [c0, c0 + kColumns) of the kTile rows of X, a chunk summed on
// its own: a total over many tiles and heads loses less. The caller has written sm.p; this waits for it.
template <class OffsetOf>
__device__ void add_weighted(Shared& sm, const void* x, DType x_type, const OffsetOf& x_row, int c0, int width,
                             float (&sums)[4][8]) {
  const int ty = threadIdx.x / 16;
  for (int j0 = 0; j0 < kTile; j0 += kChunk) {
    __syncthreads();
    const int c = threadIdx.x % kColumns;
    with_type(x_type, [&](auto one) {
      const auto* from = static_cast<const decltype(one)*>(x);
#pragma unroll
      for (int j = threadIdx.x / kColumns; j < kChunk; j += kThreads / kColumns) {
        const std::int64_t at = x_row(j0 + j);
        sm.x[j][c] = at >= 0 && c0 + c < width ? to_float(from[at + c0 + c]) : 0.0f;
      }
    });
    __syncthreads();
    const bool wide = width - c0 > kColumns / 2;
    float part[4][8] = {};
#pragma unroll 4
    for (int j = 0; j < kChunk; ++j) {
      const float4 weights = four_of(&sm.p[j0 + j][4 * ty]), low = four_of(&sm.x[j][own_column(0)]);
      const float p[4] = {weights.x, weights.y, weights.z, weights.w}, y[4] = {low.x, low.y, low.z, low.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int k = 0; k < 4; ++k) part[r][k] = fmaf(p[r], y[k], part[r][k]);
      }
      if (!wide) continue;  // heads of 64 have no more columns
      const float4 high = four_of(&sm.x[j][own_column(4)]);
      const float z[4] = {high.x, high.y, high.z, high.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int k = 0; k < 4; ++k) part[r][4 + k] = fmaf(p[r], z[k], part[r][4 + k]);
      }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int k = 0; k < 8; ++k) sums[r][k] += part[r][k];
    }
  }
}

}  // namespace polyhead::cuda::portable
