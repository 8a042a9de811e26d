// One step of AdamW (Loshchilov and Hutter 2019) on all tensors at once, with everything resolved. f32 or f64, all of
// one type, row-major.
//   m = b1 m + (1-b1) g      v = b2 v + (1-b2) g^2
//   w = w - rate (m / c1 / (sqrt(v / c2) + epsilon) + decay w)      c = 1 - b^step
#pragma once

#include <span>

#include "polyhead/tensor.h"

namespace polyhead::kernels {

struct AdamWTensor {
  TensorView weight, first, second;  // w, m, v
  ConstTensorView gradient;
  bool decays = true;
};
struct AdamWProblem {
  std::span<const AdamWTensor> tensors;
  double gradient_factor = 1;  // of g, from clipping
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.01;
  std::int64_t step = 1;  // counted from 1
};

}  // namespace polyhead::kernels
