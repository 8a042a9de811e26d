// Errors of the CUDA runtime as ours: they name the call that failed.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "polyhead/error.h"

namespace polyhead::cuda {

// Throws Error (code device), or std::bad_alloc where memory ran out.
void check(cudaError_t status, std::string_view call);

// "cudaMalloc: out of memory (2)".
std::string describe(cudaError_t status, std::string_view call);

}  // namespace polyhead::cuda
