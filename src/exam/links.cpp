#include "exam/links.h"

#include <algorithm>
#include <sstream>

#include "exam/material.h"
#include "io/file.h"
#include "io/json.h"
#include "polyhead/error.h"
#include "train/words.h"

namespace polyhead::exam {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 28;
constexpr std::size_t kBatch = 32;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::input, "links", where + ": " + what);
}

std::vector<std::int32_t> tokens_of(const std::string& text, const train::Task& task, const train::Words& words,
                                    const std::string& where) {
  std::vector<std::int32_t> tokens;
  if (task.name() == "text") {
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  } else {
    tokens = words.tokens_of(text, [&](const std::string& what) { refuse(where, what); });
  }
  if (tokens.empty() || std::ssize(tokens) > task.context()) {
    refuse(where,
           "\"tokens\": expected 1 to " + std::to_string(task.context()) + ", found " + std::to_string(tokens.size()));
  }
  return tokens;
}

train::Link read_link(const io::Json& json, std::int64_t length, bool causal, const std::string& where) {
  const std::int64_t query = io::read_integer(json, "query", where, causal ? 1 : 0, length - 1);
  const std::int64_t key = io::read_integer(json, "key", where, 0, causal ? query - 1 : length - 1);
  return {static_cast<int>(query), static_cast<int>(key), io::read_text(json, "relation", where)};
}

std::vector<train::Sequence> read_sequences(const std::filesystem::path& file, const train::Task& task) {
  const train::Words words(task);
  std::vector<train::Sequence> sequences;
  std::istringstream lines(io::read_file(file, kMostBytes));
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = file.string() + ":" + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const io::Json json = io::parse_json(line, where);
    io::expect_known_keys(json, {"tokens", "query", "key", "relation"}, where);
    std::vector<std::int32_t> tokens = tokens_of(io::read_text(json, "tokens", where), task, words, where);
    const train::Link link = read_link(json, std::ssize(tokens), task.classes() == 0, where);
    if (sequences.empty() || sequences.back().tokens != tokens) {
      sequences.emplace_back().tokens = std::move(tokens);
    }
    sequences.back().links.push_back(link);
  }
  if (sequences.empty()) refuse(file.string(), "expected a link on every line, found none");
  return sequences;
}

// [B,T] of the longest, padding is token 0.
heads::Probe probe_of(const std::vector<train::Sequence>& rows, const train::Task& task) {
  std::size_t longest = 0;
  for (const train::Sequence& row : rows) longest = std::max(longest, row.tokens.size());
  const auto B = std::ssize(rows), T = static_cast<std::int64_t>(longest);
  Tensor tokens = Tensor::zeros({B, T}, DType::i32), lengths = Tensor::empty({B}, DType::i32);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::vector<std::int32_t>& row = rows[static_cast<std::size_t>(b)].tokens;
    std::copy(row.begin(), row.end(), tokens.as<std::int32_t>() + b * T);
    lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(row.size());
  }
  heads::Probe probe = heads::make_probe(tokens, lengths, task.special_tokens(), 1);
  for (std::int64_t b = 0; b < B; ++b) {
    add_relations(task, b, rows[static_cast<std::size_t>(b)].links, probe.relations);
  }
  return probe;
}

}  // namespace

std::vector<heads::Probe> load_links(const std::filesystem::path& file, const train::Task& task) {
  const std::vector<train::Sequence> all = read_sequences(file, task);
  std::vector<heads::Probe> probes;
  for (std::size_t at = 0; at < all.size(); at += kBatch) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kBatch, all.size() - at));
    probes.push_back(probe_of({begin, begin + count}, task));
  }
  return probes;
}

}  // namespace polyhead::exam
