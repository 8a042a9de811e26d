#include "exam/links.h"

#include <algorithm>
#include <span>
#include <sstream>

#include "exam/material.h"
#include "io/file.h"
#include "io/json.h"
#include "polyhead/error.h"
#include "text/chars.h"
#include "train/words.h"

namespace polyhead::exam {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 28;
constexpr std::size_t kBatch = 32, kTokens = 4096;  // the most sequences and tokens of a probe

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::input, "links", where + ": " + what);
}

// A sequence and the relations in it; its number in a probe is not known yet.
struct Linked {
  std::vector<std::int32_t> tokens;
  std::vector<heads::Relation> relations;
};

// Reads a line for one kind of model.
class LineReader {
 public:
  virtual ~LineReader() = default;
  virtual Linked read(const io::Json& line, const std::string& where) const = 0;
};

class OfTask final : public LineReader {
 public:
  explicit OfTask(const train::Task& task) : task_(task), words_(task) {}

  Linked read(const io::Json& line, const std::string& where) const override {
    if (line.is_object() && line.contains("text")) {
      refuse(where,
             "\"text\": for models that come with a tokenizer; this one takes \"tokens\", the words of its task");
    }
    io::expect_known_keys(line, {"tokens", "query", "key", "relation"}, where);
    Linked linked{tokens_of(io::read_text(line, "tokens", where), where), {}};
    const std::int64_t length = std::ssize(linked.tokens);
    const bool causal = task_.classes() == 0;
    const std::int64_t query = io::read_integer(line, "query", where, causal ? 1 : 0, length - 1);
    const std::int64_t key = io::read_integer(line, "key", where, 0, causal ? query - 1 : length - 1);
    const train::Link link{static_cast<int>(query), static_cast<int>(key), io::read_text(line, "relation", where)};
    add_relations(task_, 0, {link}, linked.relations);
    return linked;
  }

 private:
  std::vector<std::int32_t> tokens_of(const std::string& text, const std::string& where) const {
    std::vector<std::int32_t> tokens;
    if (task_.name() == "text") {
      for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    } else {
      tokens = words_.tokens_of(text, [&](const std::string& what) { refuse(where, what); });
    }
    if (tokens.empty() || std::ssize(tokens) > task_.context()) {
      refuse(where, "\"tokens\": expected 1 to " + std::to_string(task_.context()) + ", found " +
                        std::to_string(tokens.size()));
    }
    return tokens;
  }

  const train::Task& task_;
  train::Words words_;
};

class OfText final : public LineReader {
 public:
  OfText(const text::Tokenizer& tokenizer, const Reading& reading, const model::Config& config)
      : tokenizer_(tokenizer), reading_(reading), causal_(config.kind == model::Kind::gpt), room_(config.context) {
    for (const model::LayerHeads& layer : config.layers) {
      if (layer.window > 0) room_ = std::min(room_, layer.window);
    }
  }

  Linked read(const io::Json& line, const std::string& where) const override {
    if (line.is_object() && line.contains("tokens")) {
      refuse(where,
             "\"tokens\": for models that polyhead trained on a task; this one takes \"text\", and \"query\" and "
             "\"key\" as places in it, [first character, the one after the last]");
    }
    io::expect_known_keys(line, {"text", "query", "key", "relation"}, where);
    const std::string text = io::read_text(line, "text", where), name = io::read_text(line, "relation", where);
    const std::vector<text::Token> tokens = tokenizer_.encode(text, false);
    Linked linked{around(tokens, where), {}};
    const auto characters = std::ssize(text::chars_of(text));
    const Word query = word_at(line, "query", tokens, characters, where);
    const Word key = word_at(line, "key", tokens, characters, where);
    if (causal_ && key.last >= query.first) {
      refuse(where, "\"key\": expected a word before that of \"query\", found one at or after it");
    }
    const std::int64_t keys = key.last - key.first + 1;
    if (causal_) linked.relations.push_back({0, query.first - 1, key.first, "predicts " + name, keys});
    linked.relations.push_back({0, query.last, key.first, name, keys});
    return linked;
  }

 private:
  struct Word {
    std::int64_t first, last;  // its tokens
  };

  std::vector<std::int32_t> around(const std::vector<text::Token>& text, const std::string& where) const {
    std::vector<std::int32_t> tokens = reading_.beginning;
    for (const text::Token& token : text) tokens.push_back(token.id);
    tokens.insert(tokens.end(), reading_.ending.begin(), reading_.ending.end());
    if (text.empty() || std::ssize(tokens) > room_) {
      refuse(where, "\"text\": expected up to " + std::to_string(room_) + " tokens that heads see, found " +
                        std::to_string(text.empty() ? 0 : tokens.size()) + "; take a sentence or two");
    }
    return tokens;
  }

  // All tokens that cover one of the word's characters.
  Word word_at(const io::Json& line, const char* key, const std::vector<text::Token>& tokens, std::int64_t characters,
               const std::string& where) const {
    const std::vector<std::int64_t> place = io::read_integers(line, key, where, 0, characters);
    if (place.size() != 2 || place[0] >= place[1]) {
      refuse(where, io::in_quotes(key) + ": expected a word's first character and the one after its last, [from, to]");
    }
    const auto touches = [&](const text::Token& token) {
      return token.first_char < place[1] && token.last_char > place[0];
    };
    const auto first = std::find_if(tokens.begin(), tokens.end(), touches);
    const auto last = std::find_if(tokens.rbegin(), tokens.rend(), touches);
    if (first == tokens.end()) {
      refuse(where, io::in_quotes(key) + ": characters " + std::to_string(place[0]) + " to " +
                        std::to_string(place[1]) + " have no token of their own; name a word's");
    }
    const auto begins = std::ssize(reading_.beginning);
    return {begins + (first - tokens.begin()), begins + (tokens.rend() - last) - 1};
  }

  const text::Tokenizer& tokenizer_;
  const Reading& reading_;
  bool causal_;
  std::int64_t room_;
};

std::vector<Linked> read_sequences(const std::filesystem::path& file, const LineReader& reader) {
  std::vector<Linked> sequences;
  std::istringstream lines(io::read_file(file, kMostBytes));
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = file.string() + ":" + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    Linked linked = reader.read(io::parse_json(line, where), where);
    if (sequences.empty() || sequences.back().tokens != linked.tokens) {
      sequences.push_back(std::move(linked));
      continue;
    }
    std::vector<heads::Relation>& relations = sequences.back().relations;
    relations.insert(relations.end(), linked.relations.begin(), linked.relations.end());
  }
  if (sequences.empty()) refuse(file.string(), "expected a link on every line, found none");
  return sequences;
}

// [B,T], T of the longest; padding is token 0.
heads::Probe probe_of(std::span<const Linked> rows, std::size_t longest, const std::vector<std::int32_t>& separators,
                      const std::vector<std::int32_t>& special) {
  const auto B = std::ssize(rows), T = static_cast<std::int64_t>(longest);
  Tensor tokens = Tensor::zeros({B, T}, DType::i32), lengths = Tensor::empty({B}, DType::i32);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::vector<std::int32_t>& row = rows[static_cast<std::size_t>(b)].tokens;
    std::copy(row.begin(), row.end(), tokens.as<std::int32_t>() + b * T);
    lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(row.size());
  }
  heads::Probe probe = heads::make_probe(tokens, lengths, separators, 1, special);
  for (std::int64_t b = 0; b < B; ++b) {
    for (heads::Relation relation : rows[static_cast<std::size_t>(b)].relations) {
      relation.sequence = b;
      probe.relations.push_back(std::move(relation));
    }
  }
  return probe;
}

std::vector<heads::Probe> load(const std::filesystem::path& file, const LineReader& reader,
                               const std::vector<std::int32_t>& separators, const std::vector<std::int32_t>& special) {
  const std::vector<Linked> all = read_sequences(file, reader);
  std::vector<heads::Probe> probes;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    std::size_t longest = 0;
    for (; end < all.size() && end - begin < kBatch; ++end) {
      const std::size_t with = std::max(longest, all[end].tokens.size());
      if (end > begin && with * (end - begin + 1) > kTokens) break;
      longest = with;
    }
    probes.push_back(probe_of(std::span(all).subspan(begin, end - begin), longest, separators, special));
  }
  return probes;
}

}  // namespace

std::vector<heads::Probe> load_links(const std::filesystem::path& file, const train::Task& task) {
  return load(file, OfTask(task), task.special_tokens(), {});
}

std::vector<heads::Probe> load_links(const std::filesystem::path& file, const text::Tokenizer& tokenizer,
                                     const Reading& reading, const model::Config& config) {
  return load(file, OfText(tokenizer, reading, config), reading.marks, reading.special);
}

}  // namespace polyhead::exam
