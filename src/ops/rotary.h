// rotate, resolved: for ops that hold the team.
#pragma once

#include "backend/rotary.h"

namespace polyhead::ops {

// Checks everything but y, which is still absent.
backend::RotaryProblem resolve(std::string_view op, const ConstTensorView& x, const Rotary& rotary,
                               const ConstTensorView& positions);

}  // namespace polyhead::ops
