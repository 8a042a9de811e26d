// Attention on Hopper GPUs: which problems its kernels take, and the call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backend/attention.h"

namespace polyhead::cuda::sm90 {

// Why a call is not for these kernels, or nothing. Weights and logits are left to others, and
// so are statistics where there are rarer options.
std::string objection(const backend::AttentionProblem& problem);
std::string objection(const backend::AttentionGradientProblem& problem);

// What a call needs beside its tensors, in memory of the device.
struct Workspace {
  cudaStream_t stream;
  int processors;               // multiprocessors of the device
  int* next_tile;               // one number that is 0, and is so again after every call
  std::byte* memory = nullptr;  // extra_bytes(problem), aligned to 16
  // A number of the device, or null: 0 says that no head is open. Then, and for heads that are closed, nothing is
  // written.
  const int* open_heads = nullptr;
};
// What statistics need of the rows, or hidden keys of the keys: O(T) or O(S).
std::size_t extra_bytes(const backend::AttentionProblem& problem);
std::size_t extra_bytes(const backend::AttentionGradientProblem& problem);  // two numbers of every row

// Queues the forward pass: output, lse, and statistics if they are wanted.
void attend(const Workspace& workspace, const backend::AttentionProblem& problem);
// Queues the backward pass; the problem has the output and lse of the forward pass.
void attend_backward(const Workspace& workspace, const backend::AttentionGradientProblem& problem);

}  // namespace polyhead::cuda::sm90
