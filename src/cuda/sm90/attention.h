// Attention on Hopper GPUs: which problems its kernels take, and the call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/attention.h"

namespace polyhead::cuda::sm90 {

// Why a call is not for these kernels, or nothing. Weights and logits are left to others.
std::string objection(const backend::AttentionProblem& problem);

// What a call needs beside its tensors, in memory of the device.
struct Workspace {
  cudaStream_t stream;
  int processors;             // multiprocessors of the device
  int* next_tile;             // one number that is 0, and is so again after every call
  std::byte* rows = nullptr;  // row_bytes(problem), aligned to 16
};
// Memory for what statistics need of the rows: O(T), 0 where none are wanted.
std::size_t row_bytes(const backend::AttentionProblem& problem);

// Queues the forward pass: output, lse, and statistics if they are wanted.
void attend(const Workspace& workspace, const backend::AttentionProblem& problem);

}  // namespace polyhead::cuda::sm90
