// Rotary positions with everything resolved.
#pragma once

#include "polyhead/rotary.h"

namespace polyhead::backend {

struct RotaryProblem {
  ConstTensorView x;          // [B,H,T,D]
  TensorView y;               // the same, or x's own memory
  ConstTensorView positions;  // [B,T], stride 0 over B if shared; absent: the row itself
  RotaryLayout layout = RotaryLayout::half;
  std::int64_t dim = 0;
  double base = 10000;
  bool backwards = false;
};

}  // namespace polyhead::backend
