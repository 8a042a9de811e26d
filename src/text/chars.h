// Text as characters, each with the place it came from; and what Unicode says about them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyhead::text {

// A character, which a normaliser may have changed, and the bytes [begin, end) of the original text that it stands for.
struct Char {
  char32_t code;
  std::uint32_t begin, end;
};
using Chars = std::vector<Char>;

// Invalid UTF-8 becomes U+FFFD: one for each truncated character, and one for each byte that cannot begin one.
Chars chars_of(std::string_view text);

void append_utf8(std::string& text, char32_t code);
std::string utf8_of(std::span<const Char> chars);

// By general category and White_Space.
bool is_letter(char32_t code);
bool is_number(char32_t code);
bool is_space(char32_t code);
bool is_word(char32_t code);  // \w: letters, marks, digits, connectors
bool is_punctuation(char32_t code);
bool is_nonspacing_mark(char32_t code);
bool is_other(char32_t code);  // controls, formats, private, unassigned

// Appends a character in lower case.
void append_lower(std::u32string& to, char32_t code);

// Normal forms. `composed`: NFC, NFKC; `compatible`: NFKC, NFKD. Characters that become one keep the first one's place.
Chars normal_form(const Chars& chars, bool composed, bool compatible);

}  // namespace polyhead::text
