// Texts with a known answer, of words that are one token each to the model at hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replicate/specimen.h"

namespace polyhead::replicate {

// Prompts after which one token is right and another wrong.
struct Prompt {
  std::vector<std::int32_t> tokens;
  std::int32_t right = 0, wrong = 0;
  // Where a name that is to be given and one that is not stand; -1: nowhere.
  std::int64_t at_right = -1, at_wrong = -1, again_at_wrong = -1;
};
struct Asked {
  std::vector<Prompt> prompts;
  // The logit of the right token above that of the wrong one, without these heads.
  std::vector<double> margins(Specimen& specimen, const std::vector<HeadId>& without) const;
};

// "When Mary and John went to the store, John gave a drink to": of names, places and things of our own, in templates of
// both orders. Empty if the tokenizer has too few names of one token.
Asked ask_names(Specimen& specimen);
// "Tuesday Wednesday Thursday": Friday is right, Saturday wrong.
Asked ask_ordinals(Specimen& specimen);

std::vector<std::int32_t> names_of(const Specimen& specimen);

// Numbers, days, months, letters; neighbours by their place in the list, -1 at the ends.
struct Ordinal {
  std::int32_t token = 0;
  std::ptrdiff_t before = -1, next = -1;
};
std::vector<Ordinal> ordinals_of(const Specimen& specimen);

// Words of the standard texts that are one token, so many at most, none twice.
std::vector<std::int32_t> common_words(const Specimen& specimen, std::size_t count);

}  // namespace polyhead::replicate
