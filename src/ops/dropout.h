// Dropout of activations: y = x / (1 - p) where kept, else 0; kernels/dropout.h has the rule.
#pragma once

#include "polyhead/attention.h"

namespace polyhead::ops {

// x, y [B,T,C], last stride 1, any float type; y may be x itself. The backward pass is the same with dy.
void drop(Context& context, const ConstTensorView& x, const Dropout& dropout, const TensorView& y);

}  // namespace polyhead::ops
