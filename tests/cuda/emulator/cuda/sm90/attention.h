// There is no Hopper GPU in the emulator. Stands in for src/cuda/sm90/attention.h.
#pragma once

#include <cstddef>
#include <string>

#include "backend/attention.h"

namespace polyhead::cuda::sm90 {

struct Workspace {
  void* stream;
  int processors;
  int* next_tile;
  std::byte* memory = nullptr;
};

inline std::string objection(const backend::AttentionProblem&) { return "no Hopper GPU"; }
inline std::string objection(const backend::AttentionGradientProblem&) { return "no Hopper GPU"; }
inline std::string objection_to_bias_tiles(const backend::AttentionProblem&) { return {}; }
inline std::size_t extra_bytes(const backend::AttentionProblem&) { return 0; }
inline void attend(const Workspace&, const backend::AttentionProblem&) {}
inline std::size_t extra_bytes(const backend::AttentionGradientProblem&) { return 0; }
inline void attend_backward(const Workspace&, const backend::AttentionGradientProblem&) {}

}  // namespace polyhead::cuda::sm90
