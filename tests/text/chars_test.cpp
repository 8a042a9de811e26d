#include "text/chars.h"

#include <gtest/gtest.h>

namespace polyhead::text {
namespace {

std::u32string codes(const Chars& chars) {
  std::u32string all;
  for (const Char& c : chars) all += c.code;
  return all;
}

TEST(Chars, FromUtf8) {
  const Chars chars = chars_of("a\u00e9\u4e2d\U0001f600");
  EXPECT_EQ(codes(chars), U"a\u00e9\u4e2d\U0001f600");
  EXPECT_EQ(chars[3].begin, 6u);
  EXPECT_EQ(chars[3].end, 10u);
  EXPECT_EQ(utf8_of(chars), "a\u00e9\u4e2d\U0001f600");
}

// One U+FFFD for each part that could not have begun a character, as the Unicode standard recommends.
TEST(Chars, InvalidBytes) {
  const auto becomes = [](std::string_view bytes, const std::u32string& expected) {
    EXPECT_EQ(codes(chars_of(bytes)), expected) << bytes;
  };
  becomes("\x80", U"\ufffd");
  becomes("\xff\xfe", U"\ufffd\ufffd");
  becomes("\xc0\xaf", U"\ufffd\ufffd");                      // overlong
  becomes("\xe0\x80\x80", U"\ufffd\ufffd\ufffd");            // overlong
  becomes("\xed\xa0\x80", U"\ufffd\ufffd\ufffd");            // a surrogate
  becomes("\xf4\x90\x80\x80", U"\ufffd\ufffd\ufffd\ufffd");  // beyond U+10FFFF
  becomes("\xf0\x9f\x98", U"\ufffd");                        // cut short
  becomes("a\xe4\xb8z", U"a\ufffdz");
}

TEST(Chars, NormalForms) {
  const auto form = [](std::string_view text, bool composed, bool compatible) {
    return codes(normal_form(chars_of(text), composed, compatible));
  };
  EXPECT_EQ(form("e\u0301", true, false), U"\u00e9");
  EXPECT_EQ(form("\u00e9", false, false), U"e\u0301");
  EXPECT_EQ(form("\u212b", true, false), U"\u00c5");
  EXPECT_EQ(form("\ufb01", true, false), U"\ufb01");
  EXPECT_EQ(form("\ufb01", true, true), U"fi");
  EXPECT_EQ(form("a\u0315\u0300", true, false), U"\u00e0\u0315");  // marks change places
  EXPECT_EQ(form("\u1100\u1161\u11a8", true, false), U"\uac01");
  EXPECT_EQ(form("\u0958", true, false), U"\u0915\u093c");  // never composed
  EXPECT_EQ(form("a\u0300\u0300", true, false), U"\u00e0\u0300");
  EXPECT_EQ(form("a\u0305\u0301", true, false), U"a\u0305\u0301");             // blocked by a mark of the same class
  EXPECT_EQ(form("a\u0323\u0305\u0301", true, false), U"\u1ea1\u0305\u0301");  // not by one of a lower class
}

TEST(Chars, PlacesOfWhatBecameOne) {
  const Chars chars = normal_form(chars_of("xe\u0301y"), true, false);
  ASSERT_EQ(chars.size(), 3u);
  EXPECT_EQ(chars[1].begin, 1u);
  EXPECT_EQ(chars[1].end, 2u);
  EXPECT_EQ(chars[2].begin, 4u);
}

TEST(Chars, Kinds) {
  EXPECT_TRUE(is_letter(U'\u00e9') && is_letter(U'\u4e2d') && !is_letter(U'1') && !is_letter(U'\u0301'));
  EXPECT_TRUE(is_number(U'\u0663') && is_number(U'\u2167') && is_number(U'\u00bd') && !is_number(U'a'));
  EXPECT_TRUE(is_space(U'\u0085') && is_space(U'\u3000') && is_space(U'\v') && !is_space(U'\u200b'));
  EXPECT_TRUE(is_punctuation(U'\u2026') && !is_punctuation(U'+'));
  EXPECT_TRUE(is_other(U'\u200d') && is_other(U'\0') && is_other(0x10ffff) && !is_other(U'a'));
  std::u32string lower;
  for (const char32_t code : U"A\u0130\u1e9e") append_lower(lower, code);
  EXPECT_EQ(lower.substr(0, 4), U"ai\u0307\u00df");
}

}  // namespace
}  // namespace polyhead::text
