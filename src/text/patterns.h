// The regular expressions that byte-level tokenizers cut text by, implemented by hand: files may use these and no
// others.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "text/chars.h"

namespace polyhead::text {

// In order: contractions ('s 't 're 've 'm 'll 'd), letters, numbers, other signs, white space. Some rules also take a
// blank or another character in front, depending on the family.
struct SplitPattern {
  bool gpt2;             // a blank before letters and numbers; contractions in lower case only
  std::size_t numerals;  // the most digits in a piece

  // The end of the piece that begins at `at`. Pieces cover every text from front to back.
  std::size_t end_of(const Chars& chars, std::size_t at) const;
};

inline constexpr SplitPattern kGpt2Pattern{true, static_cast<std::size_t>(-1)};
inline constexpr SplitPattern kLlama3Pattern{false, 3};
inline constexpr SplitPattern kQwen2Pattern{false, 1};

// The pattern that a regular expression describes, if it is one of these.
std::optional<SplitPattern> pattern_of(std::string_view regex);

}  // namespace polyhead::text
