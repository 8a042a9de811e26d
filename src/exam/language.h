// What the tokens of a model mean: any text becomes tokens, and every token its text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace polyhead::exam {

// A text to try, under a name of one or two words, and in two sentences what there is to see in it.
struct Suggestion {
  std::string name, text, shows;
};

class Language {
 public:
  virtual ~Language() = default;

  // As the model reads a text, with the tokens around it. Throws Error (input) for a word without a token.
  virtual std::vector<std::int32_t> tokens_of(const std::string& text) const = 0;
  virtual std::string token_text(
      std::int32_t token) const = 0;                         // by itself, blanks and all; may be part of a character
  virtual std::vector<std::int32_t> separators() const = 0;  // punctuation and the like
  virtual std::vector<std::int32_t> special() const { return {}; }      // tokens that the tokenizer calls special
  virtual std::vector<std::int32_t> ordinary() const = 0;               // enough of the others to draw from
  virtual std::vector<std::int32_t> beginning() const = 0;              // what every text begins with
  virtual std::vector<Suggestion> examples() const = 0;                 // three, the first of them to begin with
  virtual std::string hint() const = 0;                                 // what may be typed
  virtual const text::Tokenizer* tokenizer() const { return nullptr; }  // of a model that brings one

  std::string example() const { return examples().front().text; }
};

// For a model that polyhead trained on a task or on bytes, or one with a tokenizer. Refuses (input) any other folder.
std::unique_ptr<Language> language_of(const std::filesystem::path& model, const model::Config& config);

}  // namespace polyhead::exam
