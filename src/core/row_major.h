// Whether a tensor's elements follow each other in memory, the last axis fastest. The stride of an axis of one element
// is never used: views leave any number there, and so do NumPy and PyTorch.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead {

inline bool is_row_major(const Dims& shape, const Dims& strides) {
  const Dims expected = contiguous_strides(shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] > 1 && strides[axis] != expected[axis]) return false;
  }
  return true;
}

inline bool is_row_major(const ConstTensorView& view) { return is_row_major(view.shape(), view.strides()); }

}  // namespace polyhead
