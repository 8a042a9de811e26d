// Products of bf16 by bf16 that was packed, into f32, where the processor multiplies pairs of them.
#pragma once

#include "backend/gemm.h"
#include "core/team.h"

namespace polyhead::cpu {

// Whether this product can go there, on this machine.
bool multiplies_pairs(const backend::GemmProblem& problem);
void pair_gemm(Team& team, const backend::GemmProblem& problem);

}  // namespace polyhead::cpu
