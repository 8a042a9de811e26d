// Attention of few queries over many keys, as in decoding.
#pragma once

#include <string>

#include "cuda/executor.h"
#include "kernels/attention.h"

namespace polyhead::cuda::portable {

// Why this kernel does not take a call; empty if it does.
std::string_view why_not_decode(CudaExecutor& executor, const kernels::AttentionProblem& problem);

// Output and lse alone.
void decode(CudaExecutor& executor, const kernels::AttentionProblem& problem);

}  // namespace polyhead::cuda::portable
