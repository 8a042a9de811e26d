#include "text/chars.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "polyhead/error.h"

namespace polyhead::text {
namespace {

// The first character of a text: its code and length, or for a broken one U+FFFD and the length of its valid part.
struct Decoded {
  char32_t code;
  std::size_t length;
};
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(text[n]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
  if (first < 0xc2 || first > 0xf4) return {0xfffd, 1};
  char32_t code = first & (0xffu >> (length + 1));
  for (std::size_t n = 1; n < length; ++n) {
    if (n == text.size()) return {0xfffd, n};
    // The second byte of some characters has a narrower range: no overlong forms, no surrogates, nothing above 10FFFF.
    const unsigned least = n > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned most = n > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(n) < least || byte(n) > most) return {0xfffd, n};
    code = code << 6 | (byte(n) & 0x3f);
  }
  return {code, length};
}

utf8proc_category_t category_of(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool in_range(char32_t code, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t category = category_of(code);
  return category >= first && category <= last;
}

int combining_class(char32_t code) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

// The character that two compose into, or 0.
char32_t composite(char32_t a, char32_t b) {
  std::array<utf8proc_int32_t, 2> pair = {static_cast<utf8proc_int32_t>(a), static_cast<utf8proc_int32_t>(b)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair.data(), 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

Chars decomposed(const Chars& chars, bool compatible) {
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0));
  Chars result;
  std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition has 18
  for (const Char& c : chars) {
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), parts.data(), parts.size(), options, &boundary);
    for (utf8proc_ssize_t n = 0; n < count; ++n) {
      result.push_back({static_cast<char32_t>(parts[static_cast<std::size_t>(n)]), c.begin, c.end});
    }
  }
  // Sort the marks after each starter by their classes.
  for (std::size_t begin = 0; begin < result.size();) {
    std::size_t end = begin;
    while (end < result.size() && combining_class(result[end].code) != 0) ++end;
    std::stable_sort(result.begin() + static_cast<std::ptrdiff_t>(begin),
                     result.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const Char& a, const Char& b) { return combining_class(a.code) < combining_class(b.code); });
    begin = end + 1;
  }
  return result;
}

Chars composed_of(const Chars& chars) {
  Chars result;
  std::size_t starter = 0;  // in result
  bool has_starter = false;
  int last_class = 0;
  for (const Char& c : chars) {
    const int own_class = combining_class(c.code);
    // A mark is blocked from its starter by one of the same class or a higher one; a starter by anything in between.
    const bool adjacent = has_starter && starter + 1 == result.size();
    if (has_starter && (adjacent || (last_class != 0 && last_class < own_class))) {
      if (const char32_t both = composite(result[starter].code, c.code); both != 0) {
        result[starter].code = both;
        continue;
      }
    }
    if (own_class == 0) {
      starter = result.size();
      has_starter = true;
    }
    last_class = own_class;
    result.push_back(c);
  }
  return result;
}

}  // namespace

Chars chars_of(std::string_view text) {
  if (text.size() > 0xffffffffu) {
    throw Error(ErrorCode::value, "tokenize",
                "a text of " + std::to_string(text.size()) + " bytes; expected less than 4 GiB");
  }
  Chars chars;
  chars.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, length] = decode(text.substr(at));
    chars.push_back({code, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + length)});
    at += length;
  }
  return chars;
}

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

std::string utf8_of(std::span<const Char> chars) {
  std::string text;
  for (const Char& c : chars) append_utf8(text, c.code);
  return text;
}

bool is_letter(char32_t code) { return in_range(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }
bool is_number(char32_t code) { return in_range(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_space(char32_t code) {
  return (code >= 9 && code <= 13) || code == 0x85 || in_range(code, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}
bool is_word(char32_t code) {
  const bool circled_letter = code >= 0x24b6 && code <= 0x24e9;
  return in_range(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || category_of(code) == UTF8PROC_CATEGORY_PC ||
         circled_letter || code == 0x200c || code == 0x200d;
}
bool is_punctuation(char32_t code) { return in_range(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO); }
bool is_nonspacing_mark(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_MN; }
bool is_other(char32_t code) {
  return category_of(code) == UTF8PROC_CATEGORY_CN || in_range(code, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

void append_lower(std::u32string& to, char32_t code) {
  if (code == 0x130) {  // the only one that becomes two
    to += U"i\u0307";
  } else {
    to += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
  }
}

Chars normal_form(const Chars& chars, bool composed, bool compatible) {
  if (std::all_of(chars.begin(), chars.end(), [](const Char& c) { return c.code < 0x80; })) return chars;
  const Chars apart = decomposed(chars, compatible);
  return composed ? composed_of(apart) : apart;
}

}  // namespace polyhead::text
