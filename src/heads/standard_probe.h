// What the roles of a model that reads text are found on: texts of several kinds that come with polyhead, and random
// tokens that repeat. So a head has one role, whatever somebody has typed.
#pragma once

#include <string>
#include <vector>

#include "heads/probe.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace polyhead::heads {

struct ProbeText {
  std::string kind, text;  // "prose"
};
// Written for this purpose: prose, code, a list, a dialogue.
const std::vector<ProbeText>& standard_texts();

inline constexpr std::int64_t kFewestTokens = 64;  // in shorter sequences a row has too few keys to choose from

struct StandardProbe {
  std::int64_t length = 128;  // tokens in a sequence, or as many as the model has room for
  std::int64_t windows = 6;   // of each text, or as many as it has
  std::int64_t repeats = 8;   // sequences of each of these lengths, of random tokens out of the whole vocabulary
  std::vector<std::int64_t> repeat_lengths{64, 128, 256};
  std::uint64_t seed = 1;
};
// Windows lie side by side in their text, between what the tokenizer puts around one. A text that the tokenizer cannot
// read, one of the words of a task, is left out; if it reads none, there are no probes.
Probes standard_probes(const text::Tokenizer& tokenizer, const model::Config& config,
                       const std::vector<ProbeText>& texts = standard_texts(), const StandardProbe& options = {});

}  // namespace polyhead::heads
