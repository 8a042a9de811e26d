// Attention sinks as Gu et al. (ICLR 2025) count them: in a sequence of 64 tokens a head is a sink if alpha, the mean
// weight of its rows on the first token, is above 0.3.
#pragma once

#include <vector>

#include "model/transformer.h"
#include "polyhead/heads.h"

namespace polyhead::heads {

inline constexpr std::int64_t kSinkTokens = 64;
inline constexpr double kSinkEpsilon = 0.3;

// The share of heads whose alpha is above epsilon, over sequences (i32 [B,T]); 0 if there are none of either.
Estimate sink_share(Context& context, const model::Transformer& model, const std::vector<Tensor>& sequences,
                    double epsilon = kSinkEpsilon);

}  // namespace polyhead::heads
