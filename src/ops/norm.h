// LayerNorm and RMSNorm over the last axis. Tensors are row-major, f32 or f64.
#pragma once

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

// y [..,C] from x [..,C]; with beta [C] LayerNorm, without RMSNorm. scales [M,2] keeps mean and rstd of the M rows.
void normalise(Context& context, const ConstTensorView& x, const ConstTensorView& gamma, const ConstTensorView& beta,
               double epsilon, const TensorView& y, const TensorView& scales);
// plus [..,C], if present, is added to dx, and may be dx itself: what arrives at x by another way.
void normalise_backward(Context& context, const ConstTensorView& x, const ConstTensorView& gamma,
                        const ConstTensorView& scales, const ConstTensorView& dy, const ConstTensorView& plus,
                        const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta);

}  // namespace polyhead::ops
