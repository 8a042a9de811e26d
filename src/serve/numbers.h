// The attention of a text as numbers for other programs: per head and token the strongest keys and the entropy, per key
// how much it receives.
#pragma once

#include <string>

#include "exam/observer.h"

namespace polyhead::serve {

struct NumbersAsked {
  std::vector<std::int32_t> tokens;
  exam::GateList gates;
  std::vector<HeadId> heads;   // ordered by layer and head, of which there is one at least
  std::int64_t generated = 0;  // of the tokens, how many the model has added
  std::int64_t from = 0;       // the first query that is told of
  std::int64_t top = 5;
};

// The answer of "api" as docs/page.md describes it. Throws Error (input) if it would be too long.
std::string numbers(exam::Observer& observer, const std::string& model, const NumbersAsked& asked);

}  // namespace polyhead::serve
