// Attention on the tensor cores of any GPU from sm_80 on: of 16-bit numbers, and of f32, rounded to TF32 if the
// context's precision allows it, otherwise exactly, in three products of TF32.
#pragma once

#include <string>

#include "cuda/executor.h"
#include "kernels/attention.h"

namespace polyhead::cuda::portable {

// Do rows begin at multiples of 16 bytes and fill them, so that they can be copied in pieces of that size?
bool has_pieces(const ConstTensorView& tensor);

// Why these kernels do not take a call; empty if they do.
std::string_view why_not_mma(CudaExecutor& executor, const kernels::AttentionProblem& problem);
// An option of the problem that only the general kernels have, or nothing.
std::string_view score_modifier(const kernels::AttentionProblem& problem);
std::string_view why_not_mma(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem);

// Output and lse alone.
void attend_mma(CudaExecutor& executor, const kernels::AttentionProblem& problem);
void attend_backward_mma(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem);

}  // namespace polyhead::cuda::portable
