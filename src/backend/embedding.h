// Rows of a table looked up by number, with everything resolved but the numbers. f32 or f64, row-major.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::backend {

struct EmbeddingProblem {
  ConstTensorView table, indices;  // [V,C], of 16 bits too beside f32; i32 [B,T]
  ConstTensorView positions;       // [T or more,C], or absent
  TensorView y;                    // [B,T,C] = table at the indices + positions
};

// dtable [V,C] += dy [B,T,C] at the indices: the rows that fall on one entry are added in their order.
struct EmbeddingGradientProblem {
  ConstTensorView dy, indices;
  TensorView dtable;
};

}  // namespace polyhead::backend
