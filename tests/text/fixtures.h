// The tokenizers that tools/tokenizer-fixtures trained.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/scratch.h"
#include "text/tokenizer.h"

namespace polyhead::text {

inline const std::vector<std::string> kKinds = {"gpt2",  "roberta", "llama3",        "qwen2", "smollm2",   "llama2",
                                                "gemma", "unigram", "unigram_bytes", "bert",  "bert_cased"};

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/tokenizers" / name;
}

inline io::Json fixture_json(const std::string& name) { return io::parse_json(io::slurp(fixture(name)), name); }

// The 256 letters of byte-level vocabularies; the 256 tokens of byte fallback.
inline std::vector<std::string> byte_letters() {
  std::vector<std::string> letters(256);
  for (std::size_t n = 0; n < 256; ++n) append_utf8(letters[n], char_of_byte(static_cast<unsigned char>(n)));
  return letters;
}
inline std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  for (int n = 0; n < 256; ++n) tokens.push_back(byte_token(static_cast<unsigned char>(n)));
  return tokens;
}

inline std::vector<Id> ids_of(const std::vector<Token>& tokens) {
  std::vector<Id> ids;
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

}  // namespace polyhead::text
