#include "text/charsmap.h"

#include <cstring>

#include "text/fields.h"

namespace polyhead::text {
namespace {

constexpr std::size_t kLongest =
    256;  // bytes of a text that is replaced, or replaces; those of nmt_nfkc have 36 at most

// A unit of the double array: the byte that leads to it, where its children are, and whether one of them is a value.
std::uint32_t label(std::uint32_t unit) { return unit & (1u << 31 | 0xffu); }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & ~(1u << 31); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  std::uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - sizeof size || !bytes.ends_with('\0')) {
    refuse(where, "expected the size of a trie, the trie, and strings that end in a zero byte, found " +
                      std::to_string(bytes.size()) + " bytes, of which the trie takes " + std::to_string(size));
  }
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  replacements_ = bytes.substr(sizeof size + size);
  for (std::size_t begin = 0, end = 0; begin < replacements_.size(); begin = end + 1) {
    end = replacements_.find('\0', begin);
    if (end - begin <= kLongest) continue;  // a long one would make any text too large
    refuse(where, "expected replacements of up to " + std::to_string(kLongest) + " bytes, found one of " +
                      std::to_string(end - begin));
  }
}

std::optional<Charsmap::Found> Charsmap::longest_at(std::string_view text) const {
  std::optional<Found> found;
  std::size_t node = offset(units_[0]);
  for (std::size_t n = 0; n < text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[n]);
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit) || node >= units_.size() || value(units_[node]) >= replacements_.size()) continue;
    if (n + 1 < text.size() && (static_cast<unsigned char>(text[n + 1]) & 0xc0u) == 0x80)
      continue;  // within a character
    found = {n + 1, replacements_.c_str() + value(units_[node])};
  }
  return found;
}

void Charsmap::operator()(Chars& chars) const {
  std::string text;
  std::vector<std::size_t> char_at;  // by byte
  for (std::size_t n = 0; n < chars.size(); ++n) {
    append_utf8(text, chars[n].code);
    char_at.resize(text.size(), n);
  }
  char_at.push_back(chars.size());
  Chars result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = char_at[at];
    const auto found = longest_at(std::string_view(text).substr(at, kLongest));
    // A text of the table must end where a character does; one that does not replaces nothing.
    const std::size_t last = found ? char_at[at + found->length] : 0;
    if (!found || last == char_at[at + found->length - 1]) {
      result.push_back(chars[first]);
      while (char_at[at] == first) ++at;
      continue;
    }
    for (Char c : chars_of(found->replacement)) {
      c.begin = chars[first].begin;
      c.end = chars[last - 1].end;
      result.push_back(c);
    }
    at += found->length;
  }
  chars = std::move(result);
}

}  // namespace polyhead::text
