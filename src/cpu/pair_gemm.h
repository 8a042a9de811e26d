// Products of f32 by B that was packed in bf16, into f32, where the processor multiplies pairs of them: A is rounded to
// bf16 as it is packed.
#pragma once

#include "backend/gemm.h"
#include "core/team.h"

namespace polyhead::cpu {

// Whether this machine does, and the vector target in use is its best.
bool multiplies_pairs();
backend::PackedMatrix pack_pairs(Team& team, const ConstTensorView& b);  // b f32 [K,N], whose rows have stride 1
void pair_gemm(Team& team, const backend::GemmProblem& problem);         // by a B that was packed so

}  // namespace polyhead::cpu
