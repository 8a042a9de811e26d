// Dropout of a layer's output: y = x / (1 - p) where kept, else 0. Philox with the counter (column/8, row, 2^32-1,
// batch), 16 bits per column in order, kept iff bits >= round(65536 p): attention's rule, with 2^32-1 in place of a
// head. Rows and batch count from the origin of the dropout.
#pragma once

#include "polyhead/attention.h"

namespace polyhead::kernels {

struct DropoutProblem {
  ConstTensorView x;  // [B,T,C], last stride 1
  TensorView y;       // the same shape; may be x itself
  Dropout dropout;
};

inline constexpr std::uint32_t kOutputStream = 0xffffffffu;

}  // namespace polyhead::kernels
