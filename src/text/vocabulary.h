// Tokens and their numbers (ids), both ways.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace polyhead::text {

using Id = std::int32_t;
constexpr std::int64_t kMostId = 1 << 30;  // in a file

class Vocabulary {
 public:
  // Errors (input): two tokens with one number, the same text twice, a number far beyond the count of tokens, and a
  // token so long that looking for its parts would take forever.
  Vocabulary(std::vector<std::pair<std::string, std::int64_t>> tokens, const std::string& where);

  std::optional<Id> find(std::string_view token) const;
  Id at(std::string_view token, const std::string& where) const;  // a missing one is an error (input)
  const std::string* text_of(Id id) const;                        // null if there is none
  std::size_t size() const { return sorted_.size(); }

  using Entry = std::pair<std::string, Id>;
  const std::vector<Entry>& sorted() const { return sorted_; }  // by text, byte by byte

 private:
  std::vector<Entry> sorted_;
  std::vector<std::int32_t> places_;  // in sorted_, by number; -1: none
};

// "<0x0A>", as vocabularies call a byte that stands for itself.
std::string byte_token(unsigned char byte);

}  // namespace polyhead::text
