// linear by weights that were packed before: for callers that multiply by the same ones again and again.
#pragma once

#include "backend/gemm.h"
#include "polyhead/linear.h"

namespace polyhead::ops {

// Of a weight [N,K]; good as long as the weight does not change.
backend::PackedMatrix pack(Context& context, const ConstTensorView& weight);

// As polyhead::linear_into, to the same bits; `packed` is pack(weight).
void linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                 const backend::PackedMatrix* packed, const ConstTensorView& bias, const TensorView& y);

}  // namespace polyhead::ops
