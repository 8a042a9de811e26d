// Text that comes token by token: pieces that are whole characters, and an end before texts that stop it.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace polyhead::text {

// Decodes one token after the other. A character whose tokens have not all come waits.
class Stream {
 public:
  // After `before`, which is not said again: whether a blank comes first depends on what it follows.
  explicit Stream(const Tokenizer& tokenizer, std::vector<Id> before = {}, bool special = false)
      : tokenizer_(tokenizer), special_(special), tokens_(std::move(before)), said_(tokens_.size()) {}

  std::string add(Id token);  // empty while a character waits
  std::string finish();       // what still waits; U+FFFD for parts of a character

 private:
  std::string rest();

  const Tokenizer& tokenizer_;
  bool special_;
  std::vector<Id> tokens_;
  std::size_t first_ = 0, said_;  // tokens [first_, said_) are the context that the next ones are decoded in
};

// Lets text through until one of the stops appears in it; what may be the beginning of a stop waits.
class Stops {
 public:
  explicit Stops(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::string add(const std::string& more);  // what may be said
  std::string finish() { return std::exchange(waiting_, {}); }
  bool found() const noexcept { return found_; }

 private:
  std::size_t longest_beginning() const;

  std::vector<std::string> stops_;
  std::string waiting_;
  bool found_ = false;
};

}  // namespace polyhead::text
