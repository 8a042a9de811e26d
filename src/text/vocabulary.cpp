#include "text/vocabulary.h"

#include <algorithm>

#include "text/fields.h"

namespace polyhead::text {
namespace {

constexpr std::size_t kLongestToken = 4096;  // bytes; tokens in use have a few hundred at most

}  // namespace

Vocabulary::Vocabulary(std::vector<std::pair<std::string, std::int64_t>> tokens, const std::string& where) {
  // Gaps are allowed, since added tokens fill them, but a few tokens must not ask for much memory.
  const auto most = static_cast<std::int64_t>(2 * tokens.size() + 65536);
  std::sort(tokens.begin(), tokens.end());
  sorted_.reserve(tokens.size());
  for (auto& [token, id] : tokens) {
    if (token.size() > kLongestToken) {
      refuse(where, "token " + std::to_string(id) + ": " + std::to_string(token.size()) + " bytes; expected at most " +
                        std::to_string(kLongestToken));
    }
    const std::string at = where + ": token " + io::in_quotes(token);
    if (id < 0 || id > most) {
      refuse(at, "number " + std::to_string(id) + "; expected 0 to " + std::to_string(most));
    }
    if (!sorted_.empty() && sorted_.back().first == token) refuse(at, "found twice");
    const auto number = static_cast<std::size_t>(id);
    if (places_.size() <= number) places_.resize(number + 1, -1);
    if (places_[number] >= 0) {
      refuse(at, "number " + std::to_string(id) + " is also that of " +
                     io::in_quotes(sorted_[static_cast<std::size_t>(places_[number])].first));
    }
    places_[number] = static_cast<std::int32_t>(sorted_.size());
    sorted_.emplace_back(std::move(token), static_cast<Id>(id));
  }
}

std::optional<Id> Vocabulary::find(std::string_view token) const {
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), token,
                                      [](const Entry& entry, std::string_view text) { return entry.first < text; });
  if (found == sorted_.end() || found->first != token) return std::nullopt;
  return found->second;
}

Id Vocabulary::at(std::string_view token, const std::string& where) const {
  const auto id = find(token);
  if (!id) refuse(where, "no token " + io::in_quotes(token) + " in the vocabulary");
  return *id;
}

const std::string* Vocabulary::text_of(Id id) const {
  const auto number = static_cast<std::size_t>(id);
  if (id < 0 || number >= places_.size() || places_[number] < 0) return nullptr;
  return &sorted_[static_cast<std::size_t>(places_[number])].first;
}

std::string byte_token(unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
}

}  // namespace polyhead::text
