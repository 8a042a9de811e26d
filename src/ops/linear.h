// linear with weights that were packed before: for callers that multiply by the same ones again and again.
#pragma once

#include "ops/projection.h"
#include "polyhead/linear.h"

namespace polyhead::ops {

using backend::Products;

// Packs a weight [N,K]; valid as long as the weight does not change.
backend::PackedMatrix pack(Context& context, const ConstTensorView& weight, Products products = Products::exact);

// Like polyhead::linear_into, with the same bits if `packed` is pack(weight) for exact products.
void linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
                 const TensorView& y, const ProductExtras& extras);

}  // namespace polyhead::ops
