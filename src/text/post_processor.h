// Post-processors: the special tokens around a text, and offsets without white space.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "text/vocabulary.h"

namespace polyhead::text {

struct PostProcessor {
  std::vector<Id> before, after;  // of the text
  // Offsets leave out the blanks at a token's ends; `added_blank`: the tokenizer puts a blank before the text.
  struct Trim {
    bool added_blank;
  };
  std::optional<Trim> trim;
};

// The "post_processor" of a tokenizer.json for one text; null does nothing. An unknown one is an error (input).
PostProcessor read_post_processor(const io::Json& json, const std::string& where);

}  // namespace polyhead::text
