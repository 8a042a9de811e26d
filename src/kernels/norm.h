// LayerNorm and RMSNorm over the last axis, with everything resolved. f32 or f64; on a GPU each tensor of rows may also
// be f16 or bf16, while mean_rstd, gamma, beta and their gradients are f32.
//   LayerNorm  y = (x - mean) rstd * gamma + beta     rstd = 1 / sqrt(mean((x - mean)^2) + epsilon)
//   RMSNorm    y = x rstd * gamma                     rstd = 1 / sqrt(mean(x^2) + epsilon)
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::kernels {

// The M rows of [M,C] or, if they are parts of longer rows, of [L,N,C] with M = L*N. Only the last stride must be 1.
struct RowPlaces {
  std::int64_t count = 0, side = 1, outer = 0, inner = 0;

  explicit RowPlaces(const ConstTensorView& x) {
    if (!x.present()) return;
    const bool parts = x.rank() == 3;
    side = parts ? x.shape(1) : 1;
    count = x.shape(0) * side;
    outer = x.stride(0);
    inner = parts ? x.stride(1) : 0;
  }
  // The offset of a row from the first, in elements.
  constexpr std::int64_t operator[](std::int64_t row) const noexcept {
    return side == 1 ? row * outer : row / side * outer + row % side * inner;
  }
};

// Each tensor of rows may have its own strides.
struct NormProblem {
  ConstTensorView x, gamma, beta;  // rows, [C], [C]; without beta it is RMSNorm
  double epsilon = 1e-5;
  TensorView y, mean_rstd;  // rows, which may be x; [M,2] mean and rstd of every row, or absent
};

struct NormGradientProblem {
  ConstTensorView x, gamma, mean_rstd, dy;
  ConstTensorView plus;          // rows that are added to dx, or absent; may be dx itself
  bool centred = true;           // LayerNorm
  TensorView dx, dgamma, dbeta;  // dx may be dy; dbeta absent for RMSNorm
};

}  // namespace polyhead::kernels
