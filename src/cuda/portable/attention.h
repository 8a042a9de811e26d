// Attention on any GPU from sm_80 on.
#pragma once

#include "cuda/executor.h"
#include "kernels/attention.h"

namespace polyhead::cuda::portable {

void attend(CudaExecutor& executor, const kernels::AttentionProblem& problem);
// Every option, without tensor cores; attention_mma.h has those.
void attend_backward_f32(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem);
// dbias alone, whichever kernel makes the other gradients.
void bias_gradient(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem);

// Weights, logits and statistics alone, whichever kernel makes the output.
void describe_heads(CudaExecutor& executor, const kernels::AttentionProblem& problem);

}  // namespace polyhead::cuda::portable
