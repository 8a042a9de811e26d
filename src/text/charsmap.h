// SentencePiece's table of texts that are replaced before anything else: a trie of the texts, and their replacements.
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
  // makes them), the replacements, each followed by a 0. Bytes that break this format are an error (input).
  Charsmap(std::string_view bytes, const std::string& where);

  // Replaces, from front to back, the longest text that the table has; a replacement stands for all of that text.
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
