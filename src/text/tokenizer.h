// Tokenizers of Hugging Face's tokenizer.json and of GGUF: text to tokens with their places in the text, and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "polyhead/text.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

namespace polyhead::text {

using polyhead::Token;

// What the parts of a tokenizer.json become.
struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<Model> model;
  std::vector<AddedToken> added;
  PostProcessor post_processor;
  Decoder decoder;
};

// Thread-safe: nothing in it changes.
class Tokenizer {
 public:
  Tokenizer(TokenizerParts parts, const std::string& where);

  // Invalid UTF-8 reads as U+FFFD. `special`: add the tokens that the tokenizer puts around a text. Special tokens
  // written in the text are found either way.
  std::vector<Token> encode(std::string_view text, bool special = true) const;

  // Ids without a token are left out, and so are special tokens unless `special` is set.
  std::string decode(std::span<const Id> ids, bool special = false) const;

  // One token by itself, special or not. A token that is part of a character gives its bytes, not U+FFFD. Empty if the
  // decoder removes all of it.
  std::string decode_alone(Id id) const;

  // The token itself, as its vocabulary writes it; null if there is none.
  const std::string* text_of(Id id) const;
  // The largest id plus one.
  std::int64_t size() const { return size_; }
  // The tokens that are put before a text, and after it.
  const std::vector<Id>& beginning() const { return parts_.post_processor.before; }
  const std::vector<Id>& ending() const { return parts_.post_processor.after; }
  const std::vector<AddedToken>& added() const { return added_.all(); }

 private:
  TokenizerParts parts_;
  AddedTokens added_;
  std::int64_t size_ = 0;
};

// From the text of a tokenizer.json; from the metadata of a GGUF file. What is missing, contradicts itself or is not
// known is an error (input).
Tokenizer tokenizer_from_json(const io::Json& json, const std::string& where);
Tokenizer tokenizer_from_gguf(const io::Json& metadata, const std::string& where);

inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kTokenizerGguf = "tokenizer.gguf";  // the metadata of the GGUF file a model comes from
inline constexpr const char* kGenerationFile = "generation_config.json";

// The file that a model's tokenizer is in: the path itself, or in a folder its only .gguf or one of the files named
// above. Refuses (input) a folder without one.
std::filesystem::path tokenizer_file(const std::filesystem::path& model);
bool has_tokenizer(const std::filesystem::path& model);
// From such a path.
Tokenizer load_tokenizer(const std::filesystem::path& path);

// A token by itself, with the blank that a decoder drops before a first word; as its vocabulary writes it, or by its
// number, if there is nothing to decode.
std::string shown_alone(const Tokenizer& tokenizer, Id id);

// Refuses (input) a tokenizer that has more tokens than the model it was loaded with.
void expect_fits(const Tokenizer& tokenizer, std::int64_t vocabulary, const std::filesystem::path& model);

// The tokens after which a model has nothing more to say: "eos_token_id" of generation_config.json or config.json, or
// of GGUF; empty if there are none.
std::set<Id> end_tokens(const std::filesystem::path& model);

}  // namespace polyhead::text
