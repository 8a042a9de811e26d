// LayerNorm and RMSNorm over the last axis. Tensors are row-major, f32 or f64; see kernels/norm.h.
#pragma once

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

// y [..,C] from x [..,C]; with beta [C] LayerNorm, without RMSNorm. mean_rstd [M,2] keeps mean and rstd of the M rows.
void normalise(Context& context, const ConstTensorView& x, const ConstTensorView& gamma, const ConstTensorView& beta,
               double epsilon, const TensorView& y, const TensorView& mean_rstd);
// plus [..,C], if present, is added to dx, and may be dx itself: the gradient that reaches x by another path.
void normalise_backward(Context& context, const ConstTensorView& x, const ConstTensorView& gamma,
                        const ConstTensorView& mean_rstd, const ConstTensorView& dy, const ConstTensorView& plus,
                        const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta);

// RMSNorm of every head's row of x [B,H,T,D], a view of [B,T,..] split into heads, in place.
void normalise_heads(Context& context, const TensorView& x, const ConstTensorView& gamma, double epsilon);

// Such heads as the rows that kernels take: [B*T,H,D].
template <class View>
View rows_of_heads(const View& x) {
  const std::int64_t B = x.shape(0), T = x.shape(2);
  const Dims shape{B * T, x.shape(1), x.shape(3)}, strides{x.stride(2), x.stride(1), 1};
  return x.as_strided(shape, strides);
}

}  // namespace polyhead::ops
