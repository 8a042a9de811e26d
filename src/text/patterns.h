// The regular expressions that byte-level tokenizers cut text by, written out: files may name these and no others.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "text/chars.h"

namespace polyhead::text {

// Contractions ('s 't 're 've 'm 'll 'd), letters, numbers, other signs, white space; each rule takes a blank or
// another character before it, as its family has it.
struct SplitPattern {
  bool gpt2;             // a blank before letters and numbers; contractions in lower case only
  std::size_t numerals;  // the most in a piece

  // The end of the piece that begins at `at`. Every text is cut from front to back without a rest.
  std::size_t end_of(const Chars& chars, std::size_t at) const;
};

inline constexpr SplitPattern kGpt2Pattern{true, static_cast<std::size_t>(-1)};
inline constexpr SplitPattern kLlama3Pattern{false, 3};
inline constexpr SplitPattern kQwen2Pattern{false, 1};

// The one that a regular expression stands for.
std::optional<SplitPattern> pattern_of(std::string_view regex);

}  // namespace polyhead::text
