// Tiles of 16-bit numbers in shared memory, and the products of a warp's rows with them on the tensor cores.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "cuda/device/mma.cuh"
#include "cuda/device/quad.cuh"

namespace polyhead::cuda::portable {

// [kRows][kWidth] in pieces of 16 bytes, swizzled so that eight rows of one column of pieces cover all banks.
template <class T, int kRows, int kWidth>
struct TileOf {
  static constexpr int kPieces = kWidth / 8;
  static constexpr std::size_t kBytes = std::size_t{kRows} * kWidth * sizeof(T);
  std::byte* data;

  __device__ void* at(int row, int piece) const { return data + (row * kPieces + (piece ^ (row & 7))) * 16; }

  // Queues copies of rows that lie `stride` elements apart; zeros for those that are not there, and from column `width`
  // on. A thread copies the same piece of every kStep-th row.
  template <int kThreads, class There>
  __device__ void load_later(const T* from, std::int64_t stride, int width, const There& there) const {
    constexpr int kStep = kThreads / kPieces;
    static_assert(kThreads % kPieces == 0 && kRows % kStep == 0);
    const int piece = threadIdx.x % kPieces, first = threadIdx.x / kPieces;
    const T* row = from + first * stride + piece * 8;
#pragma unroll
    for (int n = 0; n < kRows / kStep; ++n, row += kStep * stride) {
      const bool here = (piece * 8 < width) & there(first + n * kStep);
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

// Loads rows [row, row + 16) and columns [16 k, 16 k + 16) of a tile as an operand A [16,16].
template <class Tile>
__device__ void load_rows(std::uint32_t (&a)[4], const Tile& tile, int row, int k) {
  const int lane = threadIdx.x % 32;
  device::load_matrices(a, tile.at(row + lane % 16, 2 * k + lane / 16));
}

// s [16 kBlocks][kKeys] += A B^T: the products of a warp's rows, from `row` on, with all rows of B.
template <class T, int kBlocks, int kKeys, int kWidth, class TileA, class TileB>
__device__ void multiply_rows(Sums<kKeys> (&s)[kBlocks], const TileA& a, int row, const TileB& b) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    std::uint32_t x[kBlocks][4];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) load_rows(x[block], a, row + 16 * block, k);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      std::uint32_t y[4];
      device::load_matrices(y, b.at(16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        device::multiply_add<T>(s[block].of[2 * n], x[block], y[0], y[1]);
        device::multiply_add<T>(s[block].of[2 * n + 1], x[block], y[2], y[3]);
      }
    }
  }
}

// sums [16 kBlocks][kColumns] += P X: P [..][kKeys] in registers, X [kKeys][..] from column 8 * piece on.
template <class T, int kBlocks, int kKeys, int kColumns, class Tile>
__device__ void multiply_weights(Sums<kColumns> (&sums)[kBlocks], const std::uint32_t (&p)[kBlocks][kKeys / 16][4],
                                 const Tile& x, int piece) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t y[4];
      device::load_matrices_transposed(y, x.at(16 * k + lane % 16, piece + 2 * n + lane / 16));
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        device::multiply_add<T>(sums[block].of[2 * n], p[block][k], y[0], y[1]);
        device::multiply_add<T>(sums[block].of[2 * n + 1], p[block][k], y[2], y[3]);
      }
    }
  }
}

// Packs the sums of one product as the left operand of the next.
template <class T, int kKeys>
__device__ void pack_weights(std::uint32_t (&p)[kKeys / 16][4], const Sums<kKeys>& s) {
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      p[k][2 * half] = device::pack<T>(s.of[2 * k + half][0], s.of[2 * k + half][1]);
      p[k][2 * half + 1] = device::pack<T>(s.of[2 * k + half][2], s.of[2 * k + half][3]);
    }
  }
}

}  // namespace polyhead::cuda::portable
