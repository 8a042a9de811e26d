// What a language model says next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoding.h"
#include "polyhead/model.h"

namespace polyhead::model {

// The token after `tokens`, of which there must be one at least; those that the context has no room for are forgotten.
// `index` counts the tokens drawn with this seed: the same arguments give the same token.
std::int32_t next_token(Context& context, const Transformer& model, std::span<const std::int32_t> tokens,
                        const Sampling& sampling, std::uint64_t index);

// Goes on with prompts, a token for each at a time; what was read is remembered, so a token costs one. The same tokens
// as next_token gives for each prompt; draws of prompt n come from a stream of their own. Where a sequence outgrows the
// model's context, all that is left in it is read again for every token.
class Generator {
 public:
  Generator(Context& context, const Transformer& model, std::vector<std::vector<std::int32_t>> prompts,
            const Sampling& sampling);

  // A token for every prompt, which go on by it.
  std::vector<std::int32_t> next();

 private:
  void read();  // all that fits into the context, from the beginning

  Context& context_;
  const Transformer& model_;
  std::vector<std::vector<std::int32_t>> tokens_;
  Sampling sampling_;
  autograd::Tape tape_;
  Memory memory_;
  ConstTensorView logits_;  // [B,1,V], of the last pass
  std::uint64_t index_ = 0;
};

}  // namespace polyhead::model
