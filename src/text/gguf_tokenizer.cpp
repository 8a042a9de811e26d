// Tokenizers from the metadata of a GGUF file.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "text/charsmap.h"
#include "text/fields.h"
#include "text/tokenizer.h"

namespace polyhead::text {
namespace {

const std::string kPrefix = "tokenizer.ggml.";
constexpr const char *kAddBos = "add_bos_token", *kBos = "bos_token_id";
constexpr const char *kAddEos = "add_eos_token", *kEos = "eos_token_id";

// How a token is used: the numbers of GGUF.
enum class Type : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Metadata {
  const io::Json& json;
  const std::string& where;

  std::string text(const std::string& key) const { return io::read_text(json, kPrefix + key, where); }
  bool flag(const std::string& key, bool otherwise) const { return flag_or(json, kPrefix + key, where, otherwise); }
  std::optional<Id> id(const std::string& key) const {
    if (field(json, kPrefix + key).is_null()) return {};
    return static_cast<Id>(io::read_integer(json, kPrefix + key, where, 0, kMostId));
  }
  std::vector<std::string> texts(const std::string& key) const {
    std::vector<std::string> all;
    for (const io::Json& each : list_of(json, kPrefix + key, where)) {
      if (!each.is_string()) refuse(where, io::in_quotes(kPrefix + key) + ": expected texts");
      all.push_back(each.get<std::string>());
    }
    return all;
  }
};

struct Tokens {
  std::vector<std::string> texts;
  std::vector<Type> types;

  explicit Tokens(const Metadata& metadata) : texts(metadata.texts("tokens")), types(texts.size(), Type::normal) {
    const std::string key = kPrefix + "token_type";
    if (field(metadata.json, key).is_null()) return;
    const std::vector<std::int64_t> numbers = io::read_integers(metadata.json, key, metadata.where, 1, 6);
    if (numbers.size() != texts.size()) {
      refuse(metadata.where, "expected a token_type for each of " + std::to_string(texts.size()) + " tokens, found " +
                                 std::to_string(numbers.size()));
    }
    for (std::size_t n = 0; n < numbers.size(); ++n) types[n] = static_cast<Type>(numbers[n]);
  }

  Vocabulary vocabulary(const std::string& where) const {
    std::vector<std::pair<std::string, std::int64_t>> pairs;
    for (std::size_t n = 0; n < texts.size(); ++n) pairs.emplace_back(texts[n], static_cast<std::int64_t>(n));
    return {std::move(pairs), where};
  }

  // Control, unknown and user-defined tokens are found in the text as a whole; the first two are special.
  std::vector<AddedToken> added() const {
    std::vector<AddedToken> tokens;
    for (std::size_t n = 0; n < texts.size(); ++n) {
      const bool special = types[n] == Type::control || types[n] == Type::unknown;
      if (texts[n].empty() || (!special && types[n] != Type::user_defined)) continue;
      AddedToken token;
      token.id = static_cast<Id>(n);
      token.text = texts[n];
      token.special = special;
      tokens.push_back(token);
    }
    return tokens;
  }
};

// A part of a tokenizer, written as in a tokenizer.json.
io::Json parts(const char* text) { return io::parse_json(text, "built in"); }

constexpr const char* kByteLevel = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
constexpr const char* kBytes = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";

// How byte-level tokenizers cut text, by the name in "tokenizer.ggml.pre".
struct Cut {
  std::vector<std::string> names;
  bool digits = false;                   // each by itself
  std::string_view numbers = {};         // in the regular expression of Llama 3 and Qwen 2
  bool composed = false, whole = false;  // NFC first; words of the vocabulary are taken whole
  bool begins = false;                   // a text begins with BOS unless the file says otherwise
  bool by_default = false;
};
const std::vector<Cut>& cuts() {
  static const std::vector<Cut> all = {
      {.names = {"gpt-2", "gpt2", "olmo", "mpt"}},
      {.names = {"smollm"}, .digits = true},
      {.names = {"llama-bpe", "llama3", "llama-v3"}, .numbers = R"(\p{N}{1,3})", .whole = true, .begins = true},
      {.names = {"qwen2"}, .numbers = R"(\p{N})", .composed = true},
      {.names = {"default"}, .by_default = true}};
  return all;
}

const Cut& cut_called(const Metadata& metadata) {
  const std::string name = field(metadata.json, kPrefix + "pre").is_null() ? "default" : metadata.text("pre");
  std::string known;
  for (const Cut& cut : cuts()) {
    for (const std::string& own : cut.names) {
      if (own == name) return cut;
      known += (known.empty() ? "" : ", ") + own;
    }
  }
  refuse(metadata.where,
         kPrefix + "pre: " + io::in_quotes(name) + " is not among those that polyhead knows (" + known + ")");
}

PreTokenizer pre_tokenizer_of(const Cut& cut, const std::string& where) {
  if (cut.by_default) {
    return [bytes = read_pre_tokenizer(parts(kBytes), where)](std::vector<Chars>& pieces) {
      cut_by_default(pieces);
      bytes(pieces);
    };
  }
  io::Json sequence = {{"type", "Sequence"}, {"pretokenizers", io::Json::array()}};
  io::Json& list = sequence["pretokenizers"];
  if (cut.digits) list.push_back(parts(R"({"type":"Digits","individual_digits":true})"));
  if (!cut.numbers.empty()) {
    const std::string regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + std::string(cut.numbers) +
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    list.push_back({{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  list.push_back(parts(cut.numbers.empty() ? kByteLevel : kBytes));
  return read_pre_tokenizer(sequence, where);
}

TokenizerParts byte_level(const Metadata& metadata, const Tokens& tokens) {
  const Cut& cut = cut_called(metadata);
  std::vector<Merge> merges;
  for (const std::string& line : metadata.texts("merges")) {
    const std::size_t blank = line.find(' ', 1);
    if (blank == line.npos) refuse(metadata.where, "merge " + std::to_string(merges.size()) + ": expected two tokens");
    merges.push_back({line.substr(0, blank), line.substr(blank + 1), static_cast<std::int64_t>(merges.size())});
  }
  BpeOptions options;
  options.byte_level = true;
  options.whole_words = cut.whole;
  return {.normalizer = read_normalizer(cut.composed ? parts(R"({"type":"NFC"})") : io::Json(), metadata.where),
          .pre_tokenizer = pre_tokenizer_of(cut, metadata.where),
          .model = make_bpe(tokens.vocabulary(metadata.where), merges, options, metadata.where),
          .added = {},
          .post_processor = {},
          .decoder = read_decoder(parts(R"({"type":"ByteLevel"})"), metadata.where)};
}

std::vector<double> scores_of(const Metadata& metadata, const Tokens& tokens) {
  const std::string key = kPrefix + "scores";
  std::vector<double> scores;
  for (const io::Json& score : list_of(metadata.json, key, metadata.where)) {
    if (!score.is_number() || !std::isfinite(score.get<double>())) refuse(metadata.where, key + ": expected numbers");
    scores.push_back(score.get<double>());
  }
  if (scores.size() != tokens.texts.size()) {
    refuse(metadata.where, "expected a score for each of " + std::to_string(tokens.texts.size()) + " tokens, found " +
                               std::to_string(scores.size()));
  }
  return scores;
}

Id unknown_of(const Metadata& metadata, const Vocabulary& vocabulary, Id otherwise) {
  const Id unknown = metadata.id("unknown_token_id").value_or(otherwise);
  if (vocabulary.text_of(unknown) == nullptr) {
    refuse(metadata.where, "unknown_token_id: there is no token " + std::to_string(unknown));
  }
  return unknown;
}

// Turns signs back into blanks and drops up to `first` leading ones, which do not belong to the text.
Decoder blanks_back(int first, bool bytes, const std::string& where) {
  io::Json decoder =
      parts(R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "}]})");
  if (bytes) decoder["decoders"].push_back(parts(R"({"type":"ByteFallback"})"));
  decoder["decoders"].push_back(parts(R"({"type":"Fuse"})"));
  decoder["decoders"].push_back({{"type", "Strip"}, {"content", " "}, {"start", first}, {"stop", 0}});
  return read_decoder(decoder, where);
}

TokenizerParts sentence_piece(const Metadata& metadata, const Tokens& tokens) {
  const std::vector<double> scores = scores_of(metadata, tokens);
  const Vocabulary vocabulary = tokens.vocabulary(metadata.where);
  BpeOptions options;
  options.unknown = *vocabulary.text_of(unknown_of(metadata, vocabulary, 0));
  options.fuse_unknown = options.byte_fallback = true;
  const bool blank = metadata.flag("add_space_prefix", true);
  const char* replaced = R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})";
  io::Json normalizer = {{"type", "Sequence"}, {"normalizers", io::Json::array()}};
  if (blank) normalizer["normalizers"].push_back(parts(R"({"type":"Prepend","prepend":"\u2581"})"));
  normalizer["normalizers"].push_back(parts(replaced));
  return {.normalizer = read_normalizer(normalizer, metadata.where),
          .pre_tokenizer = read_pre_tokenizer({}, metadata.where),
          .model = make_scored_bpe(vocabulary, scores, options, metadata.where),
          .added = {},
          .post_processor = {},
          .decoder = blanks_back(blank ? 1 : 0, true, metadata.where)};
}

// Removes blanks at the ends, and all but one of several in a row.
void remove_extra_blanks(Chars& chars) {
  Chars kept;
  for (const Char& c : chars) {
    if (c.code != ' ' || (!kept.empty() && kept.back().code != ' ')) kept.push_back(c);
  }
  if (!kept.empty() && kept.back().code == ' ') kept.pop_back();
  chars = std::move(kept);
}

// What SentencePiece does to a text before it looks for tokens.
Normalizer unigram_normalizer(const Metadata& metadata, bool blank, bool extra) {
  const std::string key = kPrefix + "precompiled_charsmap";
  std::optional<Charsmap> table;
  if (!field(metadata.json, key).is_null()) {
    std::string bytes;
    for (const std::int64_t byte : io::read_integers(metadata.json, key, metadata.where, -128, 255)) {
      bytes += static_cast<char>(byte);
    }
    if (!bytes.empty()) table.emplace(bytes, metadata.where + ": " + key);
  }
  return [=](Chars& chars) {
    if (table) (*table)(chars);
    if (!extra) remove_extra_blanks(chars);
    if (blank) prepend(chars, U" ");
    for (Char& c : chars) c.code = c.code == ' ' ? U'\u2581' : c.code;
  };
}

TokenizerParts unigram(const Metadata& metadata, const Tokens& tokens) {
  std::vector<double> scores = scores_of(metadata, tokens);
  Vocabulary vocabulary = tokens.vocabulary(metadata.where);
  UnigramOptions options{.unknown = unknown_of(metadata, vocabulary, 2), .single = true};
  for (std::size_t n = 0; n < scores.size(); ++n) {
    if (tokens.types[n] == Type::normal)
      options.least_score = std::min(options.least_score.value_or(scores[n]), scores[n]);
  }
  const bool blank = metadata.flag("add_space_prefix", false),
             extra = !metadata.flag("remove_extra_whitespaces", false);
  const int first = extra ? static_cast<int>(blank) : 1000;  // like SentencePiece, drop all leading blanks
  return {.normalizer = unigram_normalizer(metadata, blank, extra),
          .pre_tokenizer = read_pre_tokenizer({}, metadata.where),
          .model = make_unigram(std::move(vocabulary), std::move(scores), options, metadata.where),
          .added = {},
          .post_processor = {},
          .decoder = blanks_back(first, false, metadata.where)};
}

// GGUF marks the tokens that begin a word; WordPiece those that do not.
TokenizerParts word_piece(const Metadata& metadata, Tokens& tokens) {
  const std::string mark = "\u2581";
  for (std::string& text : tokens.texts) {
    if (text.starts_with('[') && text.ends_with(']')) continue;
    text = text.starts_with(mark) ? text.substr(mark.size()) : "##" + text;
  }
  const io::Json normalizer = parts(R"({"type":"BertNormalizer","lowercase":true})");
  return {.normalizer = read_normalizer(normalizer, metadata.where),
          .pre_tokenizer = read_pre_tokenizer(parts(R"({"type":"BertPreTokenizer"})"), metadata.where),
          .model = make_word_piece(tokens.vocabulary(metadata.where), {}, metadata.where),
          .added = {},
          .post_processor = {},
          .decoder = read_decoder(parts(R"({"type":"WordPiece"})"), metadata.where)};
}

// A token that llama.cpp puts around a text, if it is `wanted`; `flag`, where there is one, overrides that. Its number
// is under `id`, or in files without one `otherwise`, if the vocabulary is that large.
struct Around {
  const char *flag = nullptr, *id = "";
  bool wanted = false;
  std::optional<Id> otherwise = {};

  std::vector<Id> read(const Metadata& metadata, const Tokens& tokens) const {
    const bool fits = otherwise && static_cast<std::size_t>(*otherwise) < tokens.texts.size();
    const std::optional<Id> found = metadata.id(id), token = found || !fits ? found : otherwise;
    const bool put = flag == nullptr ? wanted : metadata.flag(flag, wanted);
    return put && token ? std::vector<Id>{*token} : std::vector<Id>{};
  }
};

}  // namespace

Tokenizer tokenizer_from_gguf(const io::Json& json, const std::string& where) {
  const Metadata metadata{json, where};
  const std::string kind = metadata.text("model");
  Tokens tokens(metadata);
  TokenizerParts result;
  Around before, after;
  if (kind == "gpt2") {
    result = byte_level(metadata, tokens);
    before = {kAddBos, kBos, cut_called(metadata).begins};
    after = {kAddEos, kEos, false};
  } else if (kind == "llama") {
    result = sentence_piece(metadata, tokens);
    before = {kAddBos, kBos, true, 1};
    after = {kAddEos, kEos, false, 2};
  } else if (kind == "bert") {
    result = word_piece(metadata, tokens);
    before = {nullptr, kBos, true, 101};
    after = {nullptr, "seperator_token_id", true, 102};  // GGUF's own spelling
  } else if (kind == "t5") {
    result = unigram(metadata, tokens);
    before = {kAddBos, kBos, false};
    after = {kAddEos, kEos, true, 1};
  } else {
    refuse(where, kPrefix + "model: " + io::in_quotes(kind) +
                      " is not among those that polyhead knows (gpt2, llama, bert, t5)");
  }
  result.post_processor.before = before.read(metadata, tokens);
  result.post_processor.after = after.read(metadata, tokens);
  result.added = tokens.added();
  return {std::move(result), where};
}

}  // namespace polyhead::text
