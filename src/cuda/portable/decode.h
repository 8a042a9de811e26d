// Few queries over many keys, as decoding has them.
#pragma once

#include <string>

#include "backend/attention.h"
#include "cuda/executor.h"

namespace polyhead::cuda::portable {

// Why a call is not for this kernel, or nothing.
std::string objection_to_decode(CudaExecutor& executor, const backend::AttentionProblem& problem);

// Output and lse alone.
void decode(CudaExecutor& executor, const backend::AttentionProblem& problem);

}  // namespace polyhead::cuda::portable
