// Attention of few queries over many keys, as in decoding.
#pragma once

#include <string>

#include "backend/attention.h"
#include "cuda/executor.h"

namespace polyhead::cuda::portable {

// Why this kernel does not take a call; empty if it does.
std::string objection_to_decode(CudaExecutor& executor, const backend::AttentionProblem& problem);

// Output and lse alone.
void decode(CudaExecutor& executor, const backend::AttentionProblem& problem);

}  // namespace polyhead::cuda::portable
