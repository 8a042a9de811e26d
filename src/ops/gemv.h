// y = f(x) W^T + bias + plus of few rows in one kernel; kernels/gemv.h says what f may be.
#pragma once

#include "kernels/gemv.h"
#include "polyhead/context.h"

namespace polyhead::ops {

using GemvInput = kernels::GemvProblem::Input;

// Returns false, and does nothing, where the device has no such kernel for the call. x [..,K], or [..,2K] of a gate;
// gamma and epsilon are those of a norm; weight [N,K]; y [..,N] and `plus`, which may be absent, are row-major.
bool gemv(Context& context, GemvInput input, const ConstTensorView& x, const ConstTensorView& gamma, double epsilon,
          const ConstTensorView& weight, const ConstTensorView& bias, const ConstTensorView& plus, const TensorView& y);

}  // namespace polyhead::ops
