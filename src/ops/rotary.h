// rotate, resolved: for ops of several kernels.
#pragma once

#include "kernels/rotary.h"
#include "ops/check.h"

namespace polyhead::ops {

// Checks everything but y, which is still absent.
kernels::RotaryProblem resolve(const Op& op, const ConstTensorView& x, const Rotary& rotary,
                               const ConstTensorView& positions);

}  // namespace polyhead::ops
