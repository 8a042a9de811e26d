// Activation patching: a head of a run on one text is made to give what it gives in a run on another, to see how much
// of the difference between the two runs goes through it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::heads {

// By how much the logit of `answer` is above that of `instead` at the last token.
struct Question {
  std::int32_t answer = 0, instead = 0;
};

struct PatchedHead {
  HeadId id;
  double difference = 0;  // of the run on the corrupted text, with this head as in the clean one
  double restored = 0;    // of the way from the corrupted run to the clean one: 0 nothing, 1 all of it
};

struct Patching {
  double clean = 0, corrupted = 0;  // the difference in each run
  std::vector<PatchedHead> heads;   // in the order of all_heads
};

// The likeliest token after each text.
struct Likeliest {
  std::int32_t clean = 0, corrupted = 0;
};
Likeliest likeliest_after(Context& context, const model::Transformer& model, std::span<const std::int32_t> clean,
                          std::span<const std::int32_t> corrupted);

// Of a language model. The texts have the same number of tokens. A pass per head, of which `on_head` is told how
// many are done. Throws Error (value) if the runs do not differ, or a logit is no number.
Patching patch(Context& context, const model::Transformer& model, std::span<const std::int32_t> clean,
               std::span<const std::int32_t> corrupted, const Question& question,
               const std::function<void(std::int64_t)>& on_head = {});

}  // namespace polyhead::heads
