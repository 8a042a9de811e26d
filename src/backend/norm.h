// LayerNorm and RMSNorm over the last axis, with everything resolved. f32 or f64.
//   LayerNorm  y = (x - mean) rstd * gamma + beta     rstd = 1 / sqrt(mean((x - mean)^2) + epsilon)
//   RMSNorm    y = x rstd * gamma                     rstd = 1 / sqrt(mean(x^2) + epsilon)
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::backend {

struct NormProblem {
  ConstTensorView x, gamma, beta;  // [M,C] row-major, [C], [C]; without beta it is RMSNorm
  double epsilon = 1e-5;
  TensorView y, scales;  // [M,C]; [M,2] mean and rstd of every row
};

struct NormGradientProblem {
  ConstTensorView x, gamma, scales, dy;
  ConstTensorView plus;          // [M,C], added to dx, or absent; may be dx itself
  bool centred = true;           // LayerNorm
  TensorView dx, dgamma, dbeta;  // dbeta absent for RMSNorm
};

}  // namespace polyhead::backend
