// A text as the tokenizer of a model reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace polyhead::exam {

struct Reading {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> beginning;  // what the tokenizer puts before every text
  std::vector<std::int32_t> ending;     // and, for an encoder, after it
  std::vector<std::int32_t> special;    // both, and whatever else the tokenizer calls special
  std::vector<std::int32_t> marks;      // tokens that are punctuation or the end of a line
  std::int64_t vocabulary = 0;          // of the model
  std::int64_t bytes = 0;               // of the text
  std::shared_ptr<const text::Tokenizer> tokenizer{};
};

// Whether a model has a tokenizer and so takes any text: models of others do, also after pruning.
bool reads_text(const std::filesystem::path& model);

// What needs no model: its tokenizer, and a text as that reads it.
struct Encoded {
  text::Tokenizer tokenizer;
  std::vector<std::int32_t> tokens;
  std::int64_t bytes = 0;
};
Encoded encode_text(const std::filesystem::path& model, const std::filesystem::path& text);
// Refuses (input) a tokenizer that has more tokens than the model's config.
Reading reading_of(Encoded encoded, const std::filesystem::path& model, const model::Config& config);
// Both.
Reading read_text(const std::filesystem::path& model, const std::filesystem::path& text, const model::Config& config);

}  // namespace polyhead::exam
