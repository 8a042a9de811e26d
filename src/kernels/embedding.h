// Rows of a table looked up by index, with everything resolved but the indices. f32 or f64, row-major.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::kernels {

struct EmbeddingProblem {
  ConstTensorView table, indices;  // [V,C], where y is f32 also f16 or bf16; i32 [B,T]
  ConstTensorView positions;       // [T or more,C], or absent
  TensorView y;                    // [B,T,C] = table at the indices + positions
};

// dtable [V,C] += dy [B,T,C] at the indices: rows with the same index are added in their order.
struct EmbeddingGradientProblem {
  ConstTensorView dy, indices;
  TensorView dtable;
};

}  // namespace polyhead::kernels
