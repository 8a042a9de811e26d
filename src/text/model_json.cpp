// The "model" of a tokenizer.json.
#include <cmath>

#include "text/fields.h"
#include "text/model.h"
#include "text/pre_tokenizer.h"

namespace polyhead::text {
namespace {

Vocabulary read_vocabulary(const io::Json& json, const std::string& where) {
  const io::Json& vocab = field(json, "vocab");
  if (!vocab.is_object()) refuse(where, "\"vocab\": expected an object that gives each token its number");
  std::vector<std::pair<std::string, std::int64_t>> tokens;
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer() || id < 0 || id > kMostId) {
      refuse(where, "token " + io::in_quotes(token) + ": expected a number from 0 on, found " + id.dump());
    }
    tokens.emplace_back(token, id.get<std::int64_t>());
  }
  return {std::move(tokens), where};
}

// ["a","b"], or "a b" as older files have it.
Merge read_merge(const io::Json& json, std::size_t n, const std::string& where) {
  const auto rank = static_cast<std::int64_t>(n);
  if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    return {json[0].get<std::string>(), json[1].get<std::string>(), rank};
  }
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const std::size_t blank = text.find(' ');
  if (blank == text.npos || text.find(' ', blank + 1) != text.npos) {
    refuse(where, "merge " + std::to_string(n) + ": expected two tokens");
  }
  return {text.substr(0, blank), text.substr(blank + 1), rank};
}

std::unique_ptr<Model> read_bpe(const io::Json& json, bool byte_level, const std::string& where) {
  if (!field(json, "dropout").is_null() && io::read_number(json, "dropout", where, 0, 1) != 0) {
    refuse(where, "\"dropout\": expected none; it is for training");
  }
  std::vector<Merge> merges;
  for (const io::Json& merge : list_of(json, "merges", where))
    merges.push_back(read_merge(merge, merges.size(), where));
  return make_bpe(read_vocabulary(json, where), merges,
                  {.unknown = text_or(json, "unk_token", where, ""),
                   .fuse_unknown = flag_or(json, "fuse_unk", where, false),
                   .byte_level = byte_level,
                   .byte_fallback = flag_or(json, "byte_fallback", where, false),
                   .whole_words = flag_or(json, "ignore_merges", where, false),
                   .prefix = text_or(json, "continuing_subword_prefix", where, ""),
                   .suffix = text_or(json, "end_of_word_suffix", where, "")},
                  where);
}

std::unique_ptr<Model> read_unigram(const io::Json& json, const std::string& where) {
  std::vector<std::pair<std::string, std::int64_t>> tokens;
  std::vector<double> scores;
  for (const io::Json& entry : list_of(json, "vocab", where)) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number() ||
        !std::isfinite(entry[1].get<double>())) {
      refuse(where, "entry " + std::to_string(scores.size()) + " of \"vocab\": expected a token and its score");
    }
    tokens.emplace_back(entry[0].get<std::string>(), static_cast<std::int64_t>(scores.size()));
    scores.push_back(entry[1].get<double>());
  }
  UnigramOptions options{.unknown = {}, .byte_fallback = flag_or(json, "byte_fallback", where, false)};
  if (!field(json, "unk_id").is_null())
    options.unknown = static_cast<Id>(io::read_integer(json, "unk_id", where, 0, kMostId));
  return make_unigram({std::move(tokens), where}, std::move(scores), options, where);
}

std::unique_ptr<Model> read_word_piece(const io::Json& json, const std::string& where) {
  WordPieceOptions options{.unknown = text_or(json, "unk_token", where, "[UNK]"),
                           .prefix = text_or(json, "continuing_subword_prefix", where, "##")};
  if (!field(json, "max_input_chars_per_word").is_null()) {
    options.longest = static_cast<std::size_t>(io::read_integer(json, "max_input_chars_per_word", where, 1, 10'000));
  }
  return make_word_piece(read_vocabulary(json, where), options, where);
}

// Older files do not name the type; their fields tell it.
std::string type_of(const io::Json& json, const std::string& where) {
  if (!field(json, "type").is_null()) return io::read_text(json, "type", where);
  return field(json, "merges").is_array() ? "BPE" : field(json, "vocab").is_array() ? "Unigram" : "WordPiece";
}

}  // namespace

std::vector<Id> Model::byte_tokens(std::span<const Char> chars) const {
  std::vector<Id> ids;
  for (const char byte : utf8_of(chars)) {
    const auto id = vocabulary_.find(byte_token(static_cast<unsigned char>(byte)));
    if (!id) return {};
    ids.push_back(*id);
  }
  return ids;
}

void Model::refuse_unknown(std::span<const Char> chars, bool byte_level) {
  const int byte = byte_level ? byte_of_char(chars[0].code) : -1;
  const std::string what =
      byte < 0 ? io::in_quotes(utf8_of(chars)) : "a character with " + byte_token(static_cast<unsigned char>(byte));
  throw Error(ErrorCode::value, "tokenize",
              "the text has " + what + " at byte " + std::to_string(chars[0].begin) +
                  ", for which the vocabulary has no token, nor one for unknown text; leave it out");
}

std::unique_ptr<Model> read_model(const io::Json& json, bool byte_level, const std::string& where) {
  const std::string type = type_of(json, where), at = where + ": " + type;
  if (type == "BPE") return read_bpe(json, byte_level, at);
  if (type == "Unigram") return read_unigram(json, at);
  if (type == "WordPiece") return read_word_piece(json, at);
  if (type == "WordLevel") return make_word_level(read_vocabulary(json, at), text_or(json, "unk_token", at, "<unk>"));
  refuse(where, io::in_quotes(type) + " is not among those that polyhead knows (BPE, Unigram, WordLevel, WordPiece)");
}

}  // namespace polyhead::text
