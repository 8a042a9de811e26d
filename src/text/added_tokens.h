// Tokens that are found in the text as a whole, before the model sees it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/chars.h"
#include "text/normalizer.h"
#include "text/vocabulary.h"

namespace polyhead::text {

struct AddedToken {
  Id id = 0;
  std::string text;
  bool single_word = false;                      // not inside a word
  bool left_strip = false, right_strip = false;  // takes in the white space on that side
  bool normalized = false;                       // looked for after the normaliser
  bool special = false;                          // left out of what is decoded
};

// A piece of the text: a token that was found, or what is still to be cut.
struct Piece {
  Chars chars;
  std::optional<Id> id;
};

class AddedTokens {
 public:
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer, const std::string& where);

  // Cuts the text into the tokens that are found in it and the rest, which is normalised.
  std::vector<Piece> find(Chars text, const Normalizer& normalizer) const;
  const AddedToken* called(Id id) const;  // null if there is none
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  // By the first character, the longest first.
  struct Wanted {
    std::u32string text;
    const AddedToken* token;
  };
  using Index = std::map<char32_t, std::vector<Wanted>>;
  void split(const Index& index, const Chars& text, std::vector<Piece>& pieces) const;

  std::vector<AddedToken> tokens_;
  Index raw_, normalized_;
  std::map<Id, const AddedToken*> by_id_;
};

}  // namespace polyhead::text
