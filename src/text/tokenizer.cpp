#include "text/tokenizer.h"

#include <algorithm>

#include "io/file.h"
#include "io/gguf.h"
#include "io/weights.h"
#include "text/fields.h"

namespace polyhead::text {
namespace {

constexpr std::size_t kMostJson = 256 << 20, kMostConfig = 16 << 20;
constexpr std::int64_t kMostTokens = 1 << 30;

// Characters of the text by byte, and back.
class Places {
 public:
  explicit Places(const Chars& text) {
    for (const Char& c : text) begins_.push_back(c.begin);
    begins_.push_back(text.empty() ? 0 : text.back().end);
  }
  std::uint32_t char_at(std::uint32_t byte) const {
    return static_cast<std::uint32_t>(std::lower_bound(begins_.begin(), begins_.end(), byte) - begins_.begin());
  }
  std::uint32_t byte_at(std::uint32_t place) const { return begins_[place]; }

 private:
  std::vector<std::uint32_t> begins_;
};

// How many characters from `from` on are white space, including the byte-level blank.
template <class Iterator>
std::uint32_t blanks(Iterator from, Iterator to) {
  const auto solid = [](const Char& c) { return c.code != char_of_byte(' ') && !is_space(c.code); };
  return static_cast<std::uint32_t>(std::find_if(from, to, solid) - from);
}

// `text`: the token's own text; `first`: it is the first token of all.
void trim(Token& token, const Chars& text, bool first, bool added_blank, const Places& places) {
  std::uint32_t before = blanks(text.begin(), text.end());
  const std::uint32_t after = blanks(text.rbegin(), text.rend());
  // One blank at the beginning is the one that was added; several were in the text.
  if (before == 1 && added_blank && (first || token.first_char == 0)) before = 0;
  token.first_char = std::min(token.first_char + before, token.last_char);
  if (after > 0 && token.last_char >= after) token.last_char = std::max(token.last_char - after, token.first_char);
  token.begin = places.byte_at(token.first_char);
  token.end = places.byte_at(token.last_char);
}

std::optional<std::filesystem::path> find_tokenizer(const std::filesystem::path& model) {
  const std::filesystem::path found = io::model_of(model);
  if (!io::is_folder(found)) return found;
  for (const char* name : {kTokenizerGguf, kTokenizerFile}) {
    if (io::is_there(found / name)) return found / name;
  }
  return std::nullopt;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts, const std::string& where)
    : parts_(std::move(parts)), added_(parts_.added, parts_.normalizer, where) {
  const Vocabulary& vocabulary = parts_.model->vocabulary();
  for (const auto& [token, id] : vocabulary.sorted()) size_ = std::max<std::int64_t>(size_, id + std::int64_t{1});
  for (const AddedToken& token : added_.all()) {
    const std::string* other = vocabulary.text_of(token.id);
    if (other != nullptr && *other != token.text) {
      refuse(where, "added token " + io::in_quotes(token.text) + ": number " + std::to_string(token.id) +
                        " is also that of " + io::in_quotes(*other));
    }
    size_ = std::max<std::int64_t>(size_, token.id + std::int64_t{1});
  }
  for (const std::vector<Id>* around : {&parts_.post_processor.before, &parts_.post_processor.after}) {
    for (const Id id : *around) {
      if (text_of(id) == nullptr) refuse(where, "post_processor: there is no token " + std::to_string(id));
    }
  }
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool special) const {
  const Chars chars = chars_of(text);
  const Places places(chars);
  std::vector<Token> tokens;
  const auto add = [&](Id id, const Char& first, const Char& last, const auto& read) {
    Token token{id, first.begin, last.end, places.char_at(first.begin), places.char_at(last.end)};
    if (const auto& trimmed = parts_.post_processor.trim) {
      trim(token, read(), tokens.empty(), trimmed->added_blank, places);
    }
    tokens.push_back(token);
  };
  for (const Piece& piece : added_.find(chars, parts_.normalizer)) {
    if (piece.id) {
      add(*piece.id, piece.chars.front(), piece.chars.back(), [&] { return piece.chars; });
      continue;
    }
    std::vector<Chars> words = {piece.chars};
    parts_.pre_tokenizer(words);
    for (const Chars& word : words) {
      for (const Span& span : parts_.model->tokenize(word)) {
        add(span.id, word[span.first], word[span.last - 1], [&] { return chars_of(*text_of(span.id)); });
      }
    }
  }
  if (!special) return tokens;
  const Token around{0, 0, 0, 0, 0};
  const auto& [before, after, trimmed] = parts_.post_processor;
  tokens.insert(tokens.begin(), before.size(), around);
  for (std::size_t n = 0; n < before.size(); ++n) tokens[n].id = before[n];
  for (const Id id : after) tokens.push_back({id, 0, 0, 0, 0});
  return tokens;
}

const std::string* Tokenizer::text_of(Id id) const {
  if (const AddedToken* token = added_.called(id)) return &token->text;
  return parts_.model->vocabulary().text_of(id);
}

std::string Tokenizer::decode(std::span<const Id> ids, bool special) const {
  std::vector<std::string> texts;
  for (const Id id : ids) {
    const AddedToken* added = added_.called(id);
    if (added != nullptr && added->special && !special) continue;
    if (const std::string* text = text_of(id)) texts.push_back(*text);
  }
  parts_.decoder(texts);
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

std::string Tokenizer::decode_alone(Id id) const {
  constexpr const char* kBroken = "\ufffd";
  const std::string alone = decode({&id, 1}, true);
  const std::string* written = text_of(id);
  const bool part = alone.find(kBroken) != alone.npos && written->find(kBroken) == written->npos;
  return part ? bytes_of_token(*written) : alone;
}

bool has_tokenizer(const std::filesystem::path& model) {
  const std::optional<std::filesystem::path> file = find_tokenizer(model);
  if (!file || file->extension() != ".gguf") return file.has_value();
  return io::read_gguf_header(*file).metadata.contains("tokenizer.ggml.model");
}

Tokenizer tokenizer_from_json(const io::Json& json, const std::string& where) {
  if (!field(json, "model").is_object()) refuse(where, "expected an object with \"model\", as a tokenizer.json has");
  TokenizerParts parts{
      .normalizer = read_normalizer(field(json, "normalizer"), where + ": normalizer"),
      .pre_tokenizer = read_pre_tokenizer(field(json, "pre_tokenizer"), where + ": pre_tokenizer"),
      .model = read_model(field(json, "model"), is_byte_level(field(json, "pre_tokenizer")), where + ": model"),
      .added = {},
      .post_processor = read_post_processor(field(json, "post_processor"), where + ": post_processor"),
      .decoder = read_decoder(field(json, "decoder"), where + ": decoder")};
  if (!field(json, "added_tokens").is_null()) {
    for (const io::Json& token : list_of(json, "added_tokens", where)) {
      const std::string at = where + ": added token " + std::to_string(parts.added.size());
      parts.added.push_back({.id = static_cast<Id>(io::read_integer(token, "id", at, 0, 1 << 30)),
                             .text = io::read_text(token, "content", at),
                             .single_word = flag_or(token, "single_word", at, false),
                             .left_strip = flag_or(token, "lstrip", at, false),
                             .right_strip = flag_or(token, "rstrip", at, false),
                             .normalized = flag_or(token, "normalized", at, true),
                             .special = flag_or(token, "special", at, false)});
    }
  }
  return {std::move(parts), where};
}

std::filesystem::path tokenizer_file(const std::filesystem::path& model) {
  if (const auto found = find_tokenizer(model)) return *found;
  if (io::is_there(model / "run.json")) {  // of a run from before runs had one
    refuse(model.string(), std::string("this run has no tokenizer: expected ") + kTokenizerFile +
                               " in its folder; 'polyhead train --resume --out " + model.string() + "' writes it");
  }
  refuse(model.string(), std::string("this model has no tokenizer: expected ") + kTokenizerFile +
                             " in its folder. Copy it from where the model comes from (polyhead train writes it, and "
                             "so does save_pretrained of a Transformers tokenizer), or give tokens by their numbers");
}

Tokenizer load_tokenizer(const std::filesystem::path& path) {
  const std::filesystem::path file = tokenizer_file(path);
  if (file.extension() == ".gguf") return tokenizer_from_gguf(io::read_gguf_header(file).metadata, file.string());
  return tokenizer_from_json(io::parse_json(io::read_file(file, kMostJson), file.string()), file.string());
}

std::string shown_alone(const Tokenizer& tokenizer, Id id) {
  const std::string alone = tokenizer.decode_alone(id);
  const std::string* written = tokenizer.text_of(id);
  if (alone.empty()) return written == nullptr ? "token " + std::to_string(id) : *written;
  const bool blank = written != nullptr && written->starts_with("▁") && !alone.starts_with(' ');
  return blank ? " " + alone : alone;
}

void expect_fits(const Tokenizer& tokenizer, std::int64_t vocabulary, const std::filesystem::path& model) {
  if (tokenizer.size() <= vocabulary) return;
  refuse(model.string(), "expected a tokenizer of at most the model's " + std::to_string(vocabulary) +
                             " tokens, found " + std::to_string(tokenizer.size()));
}

std::set<Id> end_tokens(const std::filesystem::path& given) {
  const std::filesystem::path model = io::model_of(given);
  std::set<Id> ends;
  const auto take = [&](const io::Json& found) {
    for (const io::Json& each : found.is_array() ? found : io::Json::array({found})) {
      if (each.is_number_integer() && each >= 0 && each < kMostTokens) ends.insert(each.get<Id>());
    }
  };
  if (model.extension() == ".gguf") {
    take(field(io::read_gguf_header(model).metadata, "tokenizer.ggml.eos_token_id"));
    return ends;
  }
  for (const char* name : {kGenerationFile, "config.json"}) {
    if (!ends.empty() || !io::is_there(model / name)) continue;
    take(field(io::parse_json(io::read_file(model / name, kMostConfig), (model / name).string()), "eos_token_id"));
  }
  return ends;
}

}  // namespace polyhead::text
