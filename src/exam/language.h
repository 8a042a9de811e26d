// What the tokens of a model mean: any text becomes tokens, and every token its text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/config.h"

namespace polyhead::exam {

class Language {
 public:
  virtual ~Language() = default;

  // As the model reads a text, with what belongs around it. Throws Error (input) at what it has no token for.
  virtual std::vector<std::int32_t> tokens_of(const std::string& text) const = 0;
  virtual std::string token_text(
      std::int32_t token) const = 0;                        // by itself, blanks and all; may be part of a character
  virtual std::vector<std::int32_t> special() const = 0;    // tokens that say nothing by themselves
  virtual std::vector<std::int32_t> ordinary() const = 0;   // of those that do, enough to draw from
  virtual std::vector<std::int32_t> beginning() const = 0;  // what every text begins with
  virtual std::string example() const = 0;                  // a text to begin with
  virtual std::string hint() const = 0;                     // what may be typed
};

// Of a model that polyhead trained on a task or on bytes, or one that brings a tokenizer. Refuses (input) a folder that
// does not say.
std::unique_ptr<Language> language_of(const std::filesystem::path& model, const model::Config& config);

}  // namespace polyhead::exam
