// One step of AdamW, and the size of a gradient. f32 or f64, row-major.
#pragma once

#include "kernels/adamw.h"
#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

// m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  w = w - rate (m/c1 / (sqrt(v/c2) + epsilon) + decay w),  c = 1 -
// b^step.
struct AdamW {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.01;
};
// All tensors at once; w, m, v and g of each have one shape. g is first multiplied by `factor`, from clipping. Steps
// count from 1.
void adamw(Context& context, const AdamW& rule, std::int64_t step, double factor,
           std::span<const kernels::AdamWTensor> tensors);

// sums [n] f64 = the sum of the squares of each of n tensors; the same bits for any number of threads.
void sums_of_squares(Context& context, std::span<const ConstTensorView> tensors, const TensorView& sums);

}  // namespace polyhead::ops
