// SentencePiece's table of what texts are replaced by before anything else: a trie of them, and the replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chars.h"

namespace polyhead::text {

class Charsmap {
 public:
  // As GGUF holds it: 4 bytes with the size of the trie, the trie (units of 4 bytes of a double array, as darts-clone
  // makes them), the replacements with a 0 behind each. One that breaks this is an error (input).
  Charsmap(std::string_view bytes, const std::string& where);

  // From front to back, the longest text that the table has is replaced; what comes of it stands for all of that text.
  void operator()(Chars& chars) const;

 private:
  struct Found {
    std::size_t length;  // of the text, in bytes
    std::string_view replacement;
  };
  std::optional<Found> longest_at(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace polyhead::text
