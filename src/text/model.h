// What a tokenizer knows: a vocabulary, and how a piece of text becomes tokens of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "text/chars.h"
#include "text/vocabulary.h"

namespace polyhead::text {

// A token and the characters [first, last) of the piece that it covers; byte tokens of one character each cover all of
// it.
struct Span {
  Id id;
  std::size_t first, last;
};

class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  virtual std::vector<Span> tokenize(const Chars& piece) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  // The byte tokens of some characters; none if the vocabulary lacks one of them.
  std::vector<Id> byte_tokens(std::span<const Char> chars) const;
  // Throws Error (value): these characters have no token, nor is there an unknown token; dropping them would go
  // unnoticed.
  [[noreturn]] static void refuse_unknown(std::span<const Char> chars, bool byte_level = false);

 private:
  Vocabulary vocabulary_;
};

struct BpeOptions {
  std::string unknown;         // the token for what is not in the vocabulary, or empty
  bool fuse_unknown = false;   // several unknown characters in a row become one token
  bool byte_level = false;     // the letters of pieces stand for bytes
  bool byte_fallback = false;  // byte tokens for unknown characters, if the vocabulary has them
  bool whole_words = false;    // a piece that is in the vocabulary is taken whole (ignore_merges)
  std::string prefix, suffix;  // of tokens that continue a word; of tokens that end one
};

// Byte-pair encoding: neighbours are merged, the pair of the lowest rank first and the leftmost of equal ones.
struct Merge {
  std::string left, right;
  std::int64_t rank;
};
std::unique_ptr<Model> make_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const BpeOptions& options,
                                const std::string& where);

// SentencePiece lists no merges: two tokens merge if together they are a third, the one of the best score first.
std::unique_ptr<Model> make_scored_bpe(Vocabulary vocabulary, const std::vector<double>& scores,
                                       const BpeOptions& options, const std::string& where);

// Unigram: the most probable sequence of tokens; `scores` by id.
struct UnigramOptions {
  std::optional<Id> unknown;
  std::optional<double> least_score = {};  // the unknown scores less than this; by default the least of all
  bool byte_fallback = false;
  bool single = false;  // scores are summed in single precision, as in SentencePiece: it decides ties
};
std::unique_ptr<Model> make_unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options,
                                    const std::string& where);

// The longest token first, then the longest that continues it.
struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  std::size_t longest = 100;  // a word of more characters is unknown
};
std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, const WordPieceOptions& options,
                                       const std::string& where);

// Every piece is a token, or the unknown one, if there is such a token.
std::unique_ptr<Model> make_word_level(Vocabulary vocabulary, const std::string& unknown);

// The "model" of a tokenizer.json; `byte_level`: it follows a byte-level pre-tokenizer.
std::unique_ptr<Model> read_model(const io::Json& json, bool byte_level, const std::string& where);

}  // namespace polyhead::text
