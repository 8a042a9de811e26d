// The next tokens of a language model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/executor.h"
#include "model/decoding.h"
#include "polyhead/model.h"

namespace polyhead::model {

// The token after `tokens`, at least one; the earliest are dropped if the context has no room for all. `index` counts
// the tokens drawn with this seed: the same arguments give the same token.
std::int32_t next_token(Context& context, const Transformer& model, std::span<const std::int32_t> tokens,
                        const Sampling& sampling, std::uint64_t index);

// Continues prompts, one token for each at a time. Keys and values are kept, so a step reads one token, and a device
// that records calls replays those of an earlier step. The tokens are those of next_token, except that prompt n draws
// from stream n. Once a sequence has outgrown the model's context, each step reads its last tokens again.
class Generator {
 public:
  Generator(Context& context, const Transformer& model, std::vector<std::vector<std::int32_t>> prompts,
            const Sampling& sampling);

  // The next token of every prompt, which is appended to it.
  std::vector<std::int32_t> next();

 private:
  void read();         // all that fits into the context, from the beginning
  void step();         // the last token alone
  void place_draws();  // tells the device what the next tokens are drawn with
  void choose(const ConstTensorView& logits);

  Context& context_;
  const Transformer& model_;
  std::vector<std::vector<std::int32_t>> tokens_;
  Sampling sampling_;
  autograd::Tape tape_;
  KvCaches caches_;
  Tensor last_, draws_;  // on the device: the last tokens, i32 [B,1], and f64 [B], absent with temperature 0
  std::uint64_t index_ = 0;
  std::unique_ptr<Executor::Recording> recording_;
  std::int64_t tried_ = 0, recorded_ = 0;  // bounds of the caches that a step was run for, and recorded for
};

}  // namespace polyhead::model
