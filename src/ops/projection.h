// Products with a weight matrix [N,K], for ops of several kernels: y = x W^T + b and its gradients. Leading axes of x
// are rows; the last stride is 1.
#pragma once

#include "ops/call.h"

namespace polyhead::ops {

// What may go with a product y. plus and before_gelu have y's shape and type, and all three are row-major.
struct ProductExtras {
  const backend::PackedMatrix* packed = nullptr;  // W^T
  ConstTensorView plus{};                         // is added to y; other memory
  TensorView before_gelu{};                       // receives the product, and y GPT-2's GELU of it
};
// y = x W^T + b. An x that cannot be seen as one matrix of rows is copied first; y is row-major, or a slice of columns.
void project(const Call& call, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
             const TensorView& y, const ProductExtras& extras = {});
// dx = dy W.
void project_back(const Call& call, const ConstTensorView& dy, const ConstTensorView& weight, const TensorView& dx);
// dweight = dy^T x; dbias = sum of dy over rows; each if present.
void project_weights(const Call& call, const ConstTensorView& dy, const ConstTensorView& x, const TensorView& dweight,
                     const TensorView& dbias);

}  // namespace polyhead::ops
