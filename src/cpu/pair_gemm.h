// f32 products of an f32 A and a B packed in bf16, where the processor multiplies pairs of bf16: A is rounded to bf16
// as it is packed.
#pragma once

#include "core/team.h"
#include "kernels/gemm.h"

namespace polyhead::cpu {

// Whether this machine does, and AVX3 is among the vector targets that may be used.
bool multiplies_pairs();
kernels::PackedMatrix pack_pairs(Team& team, const ConstTensorView& b);  // b f32 [K,N], stride 1 along K
void pair_gemm(Team& team, const kernels::GemmProblem& problem);         // with a B from pack_pairs

}  // namespace polyhead::cpu
