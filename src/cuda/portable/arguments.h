// The arguments of the portable attention kernels. Passed by value as a kernel's parameter.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace polyhead::cuda::portable {

using KeySet = kernels::KeySet<int>;

// A tensor of up to four axes by its strides in elements, whatever its type; absent if data is null.
struct Strided {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t stride[4] = {};

  Strided() = default;
  explicit Strided(const ConstTensorView& view)
      : data(view.present() ? const_cast<void*>(view.data()) : nullptr), dtype(view.dtype()) {
    for (int axis = 0; axis < view.rank() && axis < 4; ++axis) stride[axis] = view.stride(axis);
  }
  constexpr bool present() const { return data != nullptr; }
  constexpr std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j = 0) const {
    return b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3];
  }
};

// Attention dropout: a weight is kept if its 16 random bits reach the threshold.
struct Drops {
  bool any = false;
  std::uint64_t seed = 0;
  std::uint32_t threshold = 0;
  float factor = 1;  // 1 / (1 - p)
};

struct AttentionArguments {
  kernels::Sequences sequences;
  kernels::MaskOptions mask;
  int heads = 0, heads_per_kv = 1;
  int head_dim = 0, value_dim = 0;  // D, E
  Strided q, k, v;                  // [B,H,T,D] [B,G,S,D] [B,G,S,E], last stride 1
  float scale = 1, softcap = 0;
  Strided keep, bias;    // [B,H,T,S]
  Strided alibi, gates;  // [N,H] f32
  Strided sink_logit;    // [H] f32
  Drops drops;
  LogitStage stage = LogitStage::biased;  // the last that logits go through; hidden keys are hidden in every stage

  explicit AttentionArguments(const kernels::AttentionProblem& problem);
};

}  // namespace polyhead::cuda::portable
