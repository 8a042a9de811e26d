// Attention on Hopper GPUs: which problems its kernels take, and the call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "kernels/attention.h"

namespace polyhead::cuda::sm90 {

// Why these kernels do not take a call; empty if they do. Weights and logits are left to others, and so are statistics
// where there are score modifiers.
std::string_view why_not(const kernels::AttentionProblem& problem);
std::string_view why_not(const kernels::AttentionGradientProblem& problem);
// Why a bias, the only score modifier of a call, is not brought by the copy engine, which is twice as fast; otherwise
// empty.
std::string_view why_not_bias_tiles(const kernels::AttentionProblem& problem);

// What a call needs besides its tensors. Memory is the device's.
struct Workspace {
  cudaStream_t stream;
  int processors;               // multiprocessors of the device
  int* next_tile;               // one number, which is 0 between calls
  std::byte* memory = nullptr;  // extra_bytes(problem), aligned to 16
  // One number, or null. Unless null, nothing is written for closed heads (gate 0), and nothing at all if it is 0: no
  // head is open.
  const int* open_heads = nullptr;
};
// For statistics O(T); for keep and bias a byte per key, and a bit per element of keep.
std::size_t extra_bytes(const kernels::AttentionProblem& problem);
// O(T) and a byte per key; for gradients of gates also an output [B,H,T,D].
std::size_t extra_bytes(const kernels::AttentionGradientProblem& problem);

// Queues the forward pass: output, lse, and statistics if they are wanted.
void attend(const Workspace& workspace, const kernels::AttentionProblem& problem);
// Queues the backward pass; the problem has the output and lse of the forward pass.
void attend_backward(const Workspace& workspace, const kernels::AttentionGradientProblem& problem);

}  // namespace polyhead::cuda::sm90
