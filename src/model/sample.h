// What a language model says next.
#pragma once

#include <cstdint>
#include <span>

#include "model/transformer.h"

namespace polyhead::model {

struct Sampling {
  double temperature = 1;  // 0: always the likeliest token
  std::uint64_t seed = 1;
};

// The token after `tokens`, of which there must be one at least; those that the context has no room for are forgotten.
// `index` counts the tokens drawn with this seed: the same arguments give the same token.
std::int32_t next_token(Context& context, const Transformer& model, std::span<const std::int32_t> tokens,
                        const Sampling& sampling, std::uint64_t index);

}  // namespace polyhead::model
