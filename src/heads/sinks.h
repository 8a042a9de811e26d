// Attention sinks as Gu et al. (ICLR 2025) count them: in a sequence of 64 tokens, a head for which the mean weight of
// all rows on the first token, alpha, is above 0.3.
#pragma once

#include <vector>

#include "model/transformer.h"

namespace polyhead::heads {

inline constexpr std::int64_t kSinkTokens = 64;
inline constexpr double kSinkEpsilon = 0.3;

// Of sequences i32 [B,T] and heads, the share of pairs whose alpha is above epsilon; 0 if there are none.
double sink_share(Context& context, const model::Transformer& model, const std::vector<Tensor>& sequences,
                  double epsilon = kSinkEpsilon);

}  // namespace polyhead::heads
