#pragma once

#include "text/tokenizer.h"

namespace polyhead::text {

// The tokens of a vocabulary that are punctuation or the end of a line.
std::vector<Id> marks_of(const Tokenizer& tokenizer);
// Those that it calls special, and those that it puts around a text.
std::vector<Id> special_of(const Tokenizer& tokenizer);

}  // namespace polyhead::text
