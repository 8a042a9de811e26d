#include "text/patterns.h"

#include <algorithm>
#include <array>

namespace polyhead::text {
namespace {

// A text, as the rules look at it.
struct Text {
  const Chars& chars;

  bool is(std::size_t at, char32_t code) const { return at < chars.size() && chars[at].code == code; }
  // The end of the run, no longer than `most`, of characters that are `kind`.
  template <class Kind>
  std::size_t run(std::size_t at, const Kind& kind, std::size_t most = static_cast<std::size_t>(-1)) const {
    const std::size_t end = most < chars.size() - at ? at + most : chars.size();
    while (at < end && kind(chars[at].code)) ++at;
    return at;
  }
};

bool is_newline(char32_t code) { return code == '\r' || code == '\n'; }
bool is_sign(char32_t code) { return !is_space(code) && !is_letter(code) && !is_number(code); }

// 's|'t|'re|'ve|'m|'ll|'d; `at` itself if there is none. With any_case, the long s (U+017F) is an s too.
std::size_t contraction(const Text& text, std::size_t at, bool any_case) {
  if (!text.is(at, '\'')) return at;
  constexpr std::array<std::u32string_view, 7> kEndings = {U"s", U"t", U"re", U"ve", U"m", U"ll", U"d"};
  for (const std::u32string_view ending : kEndings) {
    const auto same = [&](std::size_t n) {
      const char32_t wanted = ending[n], upper = wanted - U'a' + U'A';
      const std::size_t place = at + 1 + n;
      return text.is(place, wanted) ||
             (any_case && (text.is(place, upper) || (wanted == U's' && text.is(place, 0x17f))));
    };
    std::size_t n = 0;
    while (n < ending.size() && same(n)) ++n;
    if (n == ending.size()) return at + 1 + n;
  }
  return at;
}

// \s+(?!\S)|\s+ : all of the white space; if other text follows, the last of several is left to it.
std::size_t space(const Text& text, std::size_t at) {
  const std::size_t end = text.run(at, is_space);
  return end < text.chars.size() && end - at > 1 ? end - 1 : end;
}

}  // namespace

std::size_t SplitPattern::end_of(const Chars& chars, std::size_t at) const {
  const Text text{chars};
  if (const std::size_t end = contraction(text, at, !gpt2); end > at) return end;
  const char32_t code = chars[at].code;
  const std::size_t after_blank = at + (code == ' ' ? 1 : 0);
  // Letters, and what may precede them: a blank, or any one character that is not a letter, number or newline.
  const bool lead = gpt2 ? code == ' ' : !is_letter(code) && !is_number(code) && !is_newline(code);
  const std::size_t letters = at + (lead ? 1 : 0);
  if (const std::size_t end = text.run(letters, is_letter); end > letters) return end;
  const std::size_t digits = gpt2 ? after_blank : at;
  if (const std::size_t end = text.run(digits, is_number, numerals); end > digits) return end;
  if (const std::size_t end = text.run(after_blank, is_sign); end > after_blank) {
    return gpt2 ? end : text.run(end, is_newline);
  }
  if (gpt2) return space(text, at);
  // \s*[\r\n]+ : up to the last newline of the space.
  for (std::size_t end = text.run(at, is_space); end > at; --end) {
    if (is_newline(chars[end - 1].code)) return end;
  }
  return space(text, at);
}

std::optional<SplitPattern> pattern_of(std::string_view regex) {
  if (regex == R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)") return kGpt2Pattern;
  constexpr std::string_view kBefore = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  constexpr std::string_view kAfter = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (!regex.starts_with(kBefore) || !regex.ends_with(kAfter) || regex.size() < kBefore.size() + kAfter.size()) {
    return std::nullopt;
  }
  const std::string_view numbers = regex.substr(kBefore.size(), regex.size() - kBefore.size() - kAfter.size());
  if (numbers == R"(\p{N}{1,3})") return kLlama3Pattern;
  if (numbers == R"(\p{N})") return kQwen2Pattern;
  return std::nullopt;
}

}  // namespace polyhead::text
