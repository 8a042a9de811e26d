// Products that may be rounded; those that may not are in kernels.h.
#pragma once

#include "core/team.h"
#include "kernels/gemm.h"

namespace polyhead::cpu {

// For coarse products operands of f32 are rounded to bf16 as they are packed, each number once, where the target
// multiplies pairs; elsewhere that would gain nothing, and they are exact.
void gemm(Team& team, const kernels::GemmProblem& problem, kernels::Products products);

}  // namespace polyhead::cpu
