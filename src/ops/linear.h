// y = x W^T + b with a weight [N,K] that may have been packed before, and as a step of an op of several kernels.
// Leading axes of x are rows; the last stride is 1.
#pragma once

#include "ops/shared_pass.h"
#include "polyhead/linear.h"

namespace polyhead::ops {

// What may go with y. plus and before_gelu have y's shape and type, and all three are row-major.
struct LinearExtras {
  const kernels::PackedMatrix* packed = nullptr;  // W^T
  ConstTensorView plus{};                         // is added to y; other memory
  TensorView before_gelu{};                       // receives the sum, and y GPT-2's GELU of it
  SharedPass* shared = nullptr;                   // each rank computes some columns; nothing is packed
};
// Steps, with everything checked. y = x W^T + b: an x that cannot be seen as one matrix of rows is copied first; y is
// row-major, or a slice of columns.
void linear(const Call& call, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
            const TensorView& y, const LinearExtras& extras = {});
// dx = dy W, of which each rank of a shared pass computes some columns.
void linear_dx(const Call& call, const ConstTensorView& dy, const ConstTensorView& weight, const TensorView& dx,
               SharedPass* shared = nullptr);
// dweight = dy^T x; dbias = sum of dy over rows; each if present. A rank of a shared pass computes its rows alone, see
// SharedPass::complete.
void linear_dweight(const Call& call, const ConstTensorView& dy, const ConstTensorView& x, const TensorView& dweight,
                    const TensorView& dbias, SharedPass* shared = nullptr);

using kernels::Products;

// Packs a weight [N,K]; valid as long as the weight does not change.
kernels::PackedMatrix pack(Context& context, const ConstTensorView& weight, Products products = Products::exact);

// Like polyhead::linear_into, with the same bits if `packed` is pack(weight) for exact products.
void linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
                 const TensorView& y, const LinearExtras& extras);
// Like polyhead::linear_backward_into.
void linear_backward_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                          const ConstTensorView& dy, const LinearGradientOutputs& outputs, SharedPass* shared);

}  // namespace polyhead::ops
