// Draws from the probabilities of the next token, with everything resolved.
//
// Weights e^((logit - largest) / temperature) are whole numbers of 2^-44, so that sums of them are exact: every backend
// draws the same token from the same logits, up to the rounding of the exponential. Tokens are ordered by logit, the
// likeliest first, and among equal ones by number. Drawn from are the first top_k, and of those the fewest that have
// at least top_p of their weight; of these the first, by number, at which the sum of weights exceeds `draw` of it all.
#pragma once

#include <bit>
#include <cstdint>

#include "polyhead/tensor.h"

namespace polyhead::kernels {

struct SampleProblem {
  ConstTensorView logits;  // f32 [B,V], the last stride 1; all finite, else BadValue
  double temperature = 1;  // 0: the first token
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  ConstTensorView draws;  // f64 [B] in [0,1); absent with temperature 0
  TensorView tokens;      // i32 [B]
};

inline constexpr double kWholeWeight = 17592186044416.0;  // 2^44: 2^19 tokens fit 64 bits

// Orders finite logits as integers do; 0 and -0 are equal.
constexpr std::uint32_t rank_of(float logit) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// How much of `total` a share of it is, at least 1 and at most all.
constexpr std::uint64_t share_of(std::uint64_t total, double share) noexcept {
  const auto part = static_cast<std::uint64_t>(static_cast<double>(total) * share);
  return part < 1 ? 1 : part > total ? total : part;
}

}  // namespace polyhead::kernels
