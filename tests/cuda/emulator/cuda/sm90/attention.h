// There is no Hopper GPU in the emulator. Stands in for src/cuda/sm90/attention.h.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/attention.h"

namespace polyhead::cuda::sm90 {

struct Workspace {
  void* stream;
  int processors;
  int* next_tile;
  std::byte* memory = nullptr;
};

inline std::string_view why_not(const kernels::AttentionProblem&) { return "the GPU is not a Hopper (sm_90)"; }
inline std::string_view why_not(const kernels::AttentionGradientProblem&) { return "the GPU is not a Hopper (sm_90)"; }
inline std::string_view why_not_bias_tiles(const kernels::AttentionProblem&) { return {}; }
inline std::size_t extra_bytes(const kernels::AttentionProblem&) { return 0; }
inline void attend(const Workspace&, const kernels::AttentionProblem&) {}
inline std::size_t extra_bytes(const kernels::AttentionGradientProblem&) { return 0; }
inline void attend_backward(const Workspace&, const kernels::AttentionGradientProblem&) {}

}  // namespace polyhead::cuda::sm90
