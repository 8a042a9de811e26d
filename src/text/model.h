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

// A token and the characters [first, last) of the piece that it covers; bytes of one character cover it alike.
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
  // The tokens of the bytes of some characters; none if the vocabulary lacks one.
  std::vector<Id> byte_tokens(std::span<const Char> chars) const;
  // What has no token where nothing stands for the unknown is an error (value): nobody would miss it.
  [[noreturn]] static void refuse_unknown(std::span<const Char> chars, bool byte_level = false);

 private:
  Vocabulary vocabulary_;
};

struct BpeOptions {
  std::string unknown;         // the token for what is not in the vocabulary; empty: there is none
  bool fuse_unknown = false;   // several in a row are one
  bool byte_level = false;     // pieces are letters that stand for bytes
  bool byte_fallback = false;  // bytes instead, where the vocabulary has them
  bool whole_words = false;    // a piece that is in the vocabulary is taken whole (ignore_merges)
  std::string prefix, suffix;  // of tokens that continue a word; of those that end one
};

// Byte-pair encoding: neighbours are merged, the pair of the least rank first, the leftmost among equals.
struct Merge {
  std::string left, right;
  std::int64_t rank;
};
std::unique_ptr<Model> make_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const BpeOptions& options,
                                const std::string& where);

// SentencePiece writes no merges: any two tokens that make a third merge, that of the best score first.
std::unique_ptr<Model> make_scored_bpe(Vocabulary vocabulary, const std::vector<double>& scores,
                                       const BpeOptions& options, const std::string& where);

// The most probable tokens: `scores` by number.
struct UnigramOptions {
  std::optional<Id> unknown;
  std::optional<double> least_score = {};  // what the unknown lies below; otherwise the least of all
  bool byte_fallback = false;
  bool single = false;  // scores add up in single precision, as SentencePiece's do: it decides among equals
};
std::unique_ptr<Model> make_unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options,
                                    const std::string& where);

// The longest token first, then the longest that continues it.
struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  std::size_t longest = 100;  // characters of a word that is not unknown for its length alone
};
std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, const WordPieceOptions& options,
                                       const std::string& where);

// The "model" of a tokenizer.json, behind a pre-tokenizer that is byte-level or not.
std::unique_ptr<Model> read_model(const io::Json& json, bool byte_level, const std::string& where);

}  // namespace polyhead::text
