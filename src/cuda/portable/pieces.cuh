// Pieces of many tensors in one launch: a block of threads takes one piece of one tensor, which it finds in the
// kernel's parameters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace polyhead::cuda::portable {

inline constexpr int kPieceThreads = 256, kPiece = 16 * kPieceThreads, kPieceTensors = 48;

template <class Tensor>
struct Pieces {
  Tensor tensors[kPieceTensors] = {};
  std::int64_t counts[kPieceTensors] = {};
  int first[kPieceTensors + 1] = {};  // pieces before those of a tensor
  int used = 0;

  void add(const Tensor& tensor, std::int64_t count) {
    tensors[used] = tensor;
    counts[used] = count;
    first[used + 1] = first[used] + static_cast<int>((count + kPiece - 1) / kPiece);
    ++used;
  }
  __device__ int tensor_of(int piece) const {
    int low = 0;
    for (int high = used; high - low > 1;) {
      const int middle = (low + high) / 2;
      (first[middle] <= piece ? low : high) = middle;
    }
    return low;
  }
};

// act(n) for this thread's elements of tensor `which` in the block's piece.
template <class Tensor, class Act>
__device__ void for_piece(const Pieces<Tensor>& pieces, int which, const Act& act) {
  const std::int64_t begin = std::int64_t{static_cast<int>(blockIdx.x) - pieces.first[which]} * kPiece;
  const std::int64_t end = min(begin + kPiece, pieces.counts[which]);
  for (std::int64_t n = begin + threadIdx.x; n < end; n += kPieceThreads) act(n);
}

// launch(pieces, tensors before these) for as many tensors at a time as a launch has room for; add(pieces, n) adds one.
template <class Tensor, class Add, class Launch>
void for_all_pieces(std::size_t count, const Add& add, const Launch& launch) {
  for (std::size_t begin = 0; begin < count; begin += kPieceTensors) {
    Pieces<Tensor> pieces;
    for (std::size_t n = begin; n < std::min(count, begin + kPieceTensors); ++n) add(pieces, n);
    launch(pieces, begin);
  }
}

}  // namespace polyhead::cuda::portable
