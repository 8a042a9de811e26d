// Softmax weights on request: a first walk over the keys finds the softmax's sum, a second one writes; and logits,
// which take one walk. The rows are all, or chosen ones in the caller's order.
#pragma once

#include "cuda/portable/softmax.cuh"

namespace polyhead::cuda::portable {

// Chosen heads or rows. Passed by value, so that no host memory is read after the launch.
struct Chosen {
  static constexpr int kMost = 256;
  int count = 0;
  bool in_order = true;  // the n-th is base + n, and `index` is not used
  int base = 0;          // the place of the first in the result
  std::int32_t index[kMost] = {};

  __device__ int of(int n) const { return in_order ? base + n : index[n]; }
};

// A tile of the chosen rows, some of which may not belong to the sequence.
struct ChosenTile {
  const Chosen& rows;
  const kernels::Sequence& sequence;
  const int first;

  // Row r as a query of the sequence; negative if it is none.
  __device__ std::int64_t query(int r) const {
    if (first + r >= rows.count) return -1;
    const std::int64_t i = rows.in_order ? first + r : rows.index[first + r] - sequence.query_begin;
    return i < sequence.rows ? i : -1;
  }
  // Its row in the result.
  __device__ std::int64_t line(int r) const {
    return rows.in_order ? sequence.query_begin + first + r : rows.base + first + r;
  }
};

// to [B,heads,rows,columns] = value_of(r, logit) of the tile's rows.
template <class ValueOf>
__device__ void write_columns(Shared& sm, const Head& head, const ChosenTile& tile, const Strided& to, int to_head,
                              int columns, const ValueOf& value_of) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float s[4][4], slopes[4][4];
  for (std::int64_t column = 0; column < columns; column += kTile) {
    head.logits(sm, static_cast<int>(column - head.sequence.weights_column), s, slopes);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (tile.query(4 * ty + r) < 0) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t j = column + 4 * tx + c;
        if (j < columns) {
          store(to.data, to.dtype, to.at(head.sequence.batch, to_head, tile.line(4 * ty + r), j), value_of(r, s[r][c]));
        }
      }
    }
  }
}

// to [B,heads,rows,columns] = the logits, or the weights, of the chosen heads and rows.
template <bool kLogits>
__global__ void __launch_bounds__(kThreads)
    chosen_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ Strided to, int columns,
                  const __grid_constant__ Chosen heads, const __grid_constant__ Chosen rows, int tiles) {
  __shared__ Shared sm;
  const BlockPlace place(1, tiles, heads.count);
  const Head head(a, place.n, heads.of(place.h));
  const ChosenTile tile{rows, head.sequence, place.tile * kTile};
  if (threadIdx.x < kTile) sm.rows[threadIdx.x] = head.row(tile.query(threadIdx.x));
  if constexpr (kLogits) {
    write_columns(sm, head, tile, to, heads.base + place.h, columns, [](int, float s) { return s; });
  } else {
    RunningSoftmax softmax(head);
    float p[4][4], slopes[4][4], alpha[4];
    for (std::int64_t j0 = 0; j0 < head.sequence.keys; j0 += kTile) {
      head.logits(sm, static_cast<int>(j0), p, slopes);
      softmax.add(p, alpha);
    }
    softmax.finish();
    write_columns(sm, head, tile, to, heads.base + place.h, columns, [&](int r, float s) {
      return s == kNegativeInfinity ? 0.0f : expf(s - softmax.m[r]) / softmax.l[r];
    });
  }
}

}  // namespace polyhead::cuda::portable
