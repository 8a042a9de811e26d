// Text that people see: nothing hides in it, nothing in it is markup. And bytes as text.
#include "report/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "report/base64.h"

namespace polyhead::report {
namespace {

TEST(Text, WhatHidesIsMadeVisible) {
  EXPECT_EQ(visible("plain, déjà vu, 漢字, 🙂"), "plain, déjà vu, 漢字, 🙂");
  EXPECT_EQ(visible("a\nb\tc"), "a↵b⇥c");
  EXPECT_EQ(visible(std::string("\0\x1B\x7F", 3)), "‹U+0000›‹U+001B›‹U+007F›");
  EXPECT_EQ(visible("a\u202Eb\u2066c\u200Bd\uFEFF"), "a‹U+202E›b‹U+2066›c‹U+200B›d‹U+FEFF›");
  EXPECT_EQ(visible("\u2028\u2029\u0085\uFFFE"), "‹U+2028›‹U+2029›‹U+0085›‹U+FFFE›");
  EXPECT_EQ(visible("\U000E0041"), "‹U+E0041›");
}

// Every kind of character without a shape, from the first of them to the last; its neighbours have one.
TEST(Text, AllThatHidesIsMadeVisible) {
  for (const auto& [hidden, name] : {std::pair<std::string, std::string>{"\x08", "U+0008"},
                                     {"\x0B", "U+000B"},
                                     {"\x1F", "U+001F"},
                                     {"\x7F", "U+007F"},
                                     {"\xC2\x80", "U+0080"},
                                     {"\xC2\x9F", "U+009F"},
                                     {"\u00AD", "U+00AD"},
                                     {"\u061C", "U+061C"},
                                     {"\u115F", "U+115F"},
                                     {"\u1160", "U+1160"},
                                     {"\u180E", "U+180E"},
                                     {"\u200B", "U+200B"},
                                     {"\u200F", "U+200F"},
                                     {"\u2028", "U+2028"},
                                     {"\u202E", "U+202E"},
                                     {"\u2060", "U+2060"},
                                     {"\u206F", "U+206F"},
                                     {"\u3164", "U+3164"},
                                     {"\uFEFF", "U+FEFF"},
                                     {"\uFFF9", "U+FFF9"},
                                     {"\uFFFB", "U+FFFB"},
                                     {"\uFFFE", "U+FFFE"},
                                     {"\uFFFF", "U+FFFF"},
                                     {"\U0001FFFE", "U+1FFFE"},
                                     {"\U0001FFFF", "U+1FFFF"},
                                     {"\U000E0000", "U+E0000"},
                                     {"\U000E0FFF", "U+E0FFF"}}) {
    EXPECT_EQ(visible(hidden), "‹" + name + "›");
  }
  for (const char* shown : {" ", "~", "\u00A0", "\u00AC", "\u00AE", "\u061B", "\u061D", "\u1161", "\u200A", "\u2010",
                            "\u2027", "\u202F", "\u205F", "\u2070", "\uFFFC", "\uFFFD"}) {
    EXPECT_EQ(visible(shown), shown);
  }
}

TEST(Text, TokensShowTheirSpaces) {
  EXPECT_EQ(visible_token(" the"), "·the");
  EXPECT_EQ(visible_token("a b  "), "a b··");
  EXPECT_EQ(visible_token("  "), "··");
  EXPECT_EQ(visible_token(""), "");
}

TEST(Text, BytesThatAreNoUtf8AreShown) {
  EXPECT_EQ(visible("a\xFFz"), "a⟨FF⟩z");
  EXPECT_EQ(visible("\xC0\xAF"), "⟨C0 AF⟩");                // overlong
  EXPECT_EQ(visible("\xED\xA0\x80"), "⟨ED A0 80⟩");         // a surrogate
  EXPECT_EQ(visible("\xF4\x90\x80\x80"), "⟨F4 90 80 80⟩");  // beyond Unicode
  EXPECT_EQ(visible("\xE2\x82"), "⟨E2 82⟩");                // cut off
  // The first and the last of each length; one less in a longer form is overlong.
  for (const char* text :
       {"\u0080\u00A0", "\u07FF", "\u0800", "\uD7FF", "\uE000", "\uFFFD", "\U00010000", "\U0010FFFD"}) {
    const std::string shown = visible(text);
    EXPECT_EQ(shown.find("⟨"), std::string::npos) << shown;
  }
  EXPECT_EQ(visible("\xC1\xBF"), "⟨C1 BF⟩");
  EXPECT_EQ(visible("\xE0\x9F\xBF"), "⟨E0 9F BF⟩");
  EXPECT_EQ(visible("\xE0\x80\x80"), "⟨E0 80 80⟩");
  EXPECT_EQ(visible("\xF0\x8F\xBF\xBF"), "⟨F0 8F BF BF⟩");
  EXPECT_EQ(visible("\xED\xBF\xBF"), "⟨ED BF BF⟩");
  EXPECT_EQ(visible("\x82\n\xE2"), "⟨82⟩↵⟨E2⟩");
  EXPECT_EQ(visible_token(" \xE2\x80"), "·⟨E2 80⟩");
  EXPECT_EQ(visible("\uFFFD"), "\uFFFD") << "if the text has one";
}

TEST(Text, EscapedTextIsNoMarkup) {
  EXPECT_EQ(escaped("<a href=\"x\" id='y'>&amp;</a>"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
}

TEST(Text, ShortenedCountsCharacters) {
  EXPECT_EQ(shortened("héads", 5), "héads");
  EXPECT_EQ(shortened("héadse", 5), "héad…");
  EXPECT_EQ(shortened("", 3), "");
  EXPECT_EQ(shortened("ab", 1), "…");
}

TEST(Text, FittedTextIsAsLongAsItMayBe) {
  const std::string name = "a näme of many letters";
  EXPECT_EQ(fitted(name, width_of(name, 12), 12), name);
  for (const char* cut : {"a näme of many lett…", "a n…", "…"})
    EXPECT_EQ(fitted(name, width_of(cut, 12) + 0.1, 12), cut);
  EXPECT_EQ(fitted("", 0, 12), "");
}

TEST(Text, NumbersHaveThreeDigits) {
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(0.012345), "0.0123");
  EXPECT_EQ(number(-12.345), "−12.3");
  EXPECT_EQ(number(12345.6), "12,346");
  EXPECT_EQ(number(-999'400), "−999,400");
  EXPECT_EQ(number(2.5e6), "2.5M");
  EXPECT_EQ(number(1e9), "1G");
  // What would round to a fourth digit takes the next unit.
  EXPECT_EQ(number(999.4), "999");
  EXPECT_EQ(number(999.5), "1,000");
  EXPECT_EQ(number(999'499), "999,499");
  EXPECT_EQ(number(999'500), "1M");
  EXPECT_EQ(number(999.4e6), "999M");
  EXPECT_EQ(number(999.5e6), "1G");
  EXPECT_EQ(number(std::nan("")), "–");
}

TEST(Text, WiderTextIsWider) {
  EXPECT_GT(width_of("wide", 12), width_of("ill", 12));
  EXPECT_DOUBLE_EQ(width_of("漢字", 10), 20);
  EXPECT_DOUBLE_EQ(width_of("🙂", 10), 10);
  for (const char letter : {'m', 'w', 'M', 'W', '%'})
    EXPECT_DOUBLE_EQ(width_of(std::string(1, letter), 100), 92) << letter;
  for (const char letter : {'i', 'l', '.', ' ', 'I'})
    EXPECT_DOUBLE_EQ(width_of(std::string(1, letter), 100), 38) << letter;
  for (const char letter : {'A', 'Z'}) EXPECT_DOUBLE_EQ(width_of(std::string(1, letter), 100), 70) << letter;
  for (const char* letter : {"a", "z", "0", "é"}) EXPECT_DOUBLE_EQ(width_of(letter, 100), 63) << letter;
}

std::string base64_of(std::string_view text) { return base64(std::vector<std::uint8_t>(text.begin(), text.end())); }

TEST(Base64, VectorsOfRfc4648) {
  EXPECT_EQ(base64_of(""), "");
  EXPECT_EQ(base64_of("f"), "Zg==");
  EXPECT_EQ(base64_of("fo"), "Zm8=");
  EXPECT_EQ(base64_of("foo"), "Zm9v");
  EXPECT_EQ(base64_of("foob"), "Zm9vYg==");
  EXPECT_EQ(base64_of("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64_of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64(std::vector<std::uint8_t>{0xFB, 0xFF, 0xFE}), "+//+");
}

// SHA-256 of nothing, as browsers write it.
TEST(Base64, DigestsComeFromHexadecimal) {
  EXPECT_EQ(base64_of_hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

}  // namespace
}  // namespace polyhead::report
