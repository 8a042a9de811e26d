// Activation patching: a head of a run on one text is made to give its output of a run on another text, to see how much
// of the difference between the two runs goes through it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/ranks.h"
#include "model/head.h"
#include "model/transformer.h"
#include "polyhead/heads.h"

namespace polyhead::heads {

// What is measured: the logit of `answer` minus that of `instead` at the last token.
struct Question {
  std::int32_t answer = 0, instead = 0;
};

using polyhead::PatchedHead;
using polyhead::Patching;

// The likeliest token after each text.
struct Likeliest {
  std::int32_t clean = 0, corrupted = 0;
};
Likeliest likeliest_after(Context& context, const model::Transformer& model, std::span<const std::int32_t> clean,
                          std::span<const std::int32_t> corrupted);

// For a language model and two texts of equally many tokens. One pass per head, which ranks share; `on_head` receives
// how many are done, or begun on other ranks, and `go_on` is asked before each: once it says no, the rest is left out.
// All ranks get all results. Throws Error (value) if the runs do not differ, or a logit is not finite.
Patching patch(Context& context, const model::Transformer& model, std::span<const std::int32_t> clean,
               std::span<const std::int32_t> corrupted, const Question& question,
               const std::function<void(std::int64_t)>& on_head = {}, Ranks& ranks = alone(),
               const std::function<bool()>& go_on = {});

}  // namespace polyhead::heads
