// Every part beside a second computation that is as plain as can be, on random inputs: all code points, merging by
// scanning, the best of all ways to cut, and the regular expressions themselves.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <regex>
#include <set>

#include "text/fixtures.h"
#include "text/model.h"
#include "text/patterns.h"
#include "text/pre_tokenizer.h"

namespace polyhead::text {
namespace {

using Random = std::mt19937;

std::string random_text(Random& random, const std::vector<std::string>& letters, std::size_t longest) {
  std::string text;
  for (std::size_t n = random() % (longest + 1); n > 0; --n) text += letters[random() % letters.size()];
  return text;
}

std::string encoding_of(char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length)};
}

template <class Check>
void for_all_codes(const Check& check) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code < 0xd800 || code > 0xdfff) check(code);
  }
}

// ---- characters

TEST(TextOracles, EveryCodePointIsWrittenAndReadAsUtf8proc) {
  std::string all;
  std::vector<std::pair<char32_t, std::size_t>> written;
  for_all_codes([&](char32_t code) {
    if (code > 0x3000 && code % 61 != 0 && (code + 1) % 0x1000 > 2) return;  // all edges, and some in between
    std::string own;
    append_utf8(own, code);
    ASSERT_EQ(own, encoding_of(code)) << static_cast<std::uint32_t>(code);
    written.emplace_back(code, all.size());
    all += own;
  });
  const Chars read = chars_of(all);
  ASSERT_EQ(read.size(), written.size());
  for (std::size_t n = 0; n < read.size(); ++n) {
    ASSERT_EQ(read[n].code, written[n].first);
    ASSERT_EQ(read[n].begin, written[n].second);
    ASSERT_EQ(read[n].end, n + 1 < read.size() ? written[n + 1].second : all.size());
  }
}

// A character where one begins; else U+FFFD for the longest part that begins some character, or for one byte.
TEST(TextOracles, BrokenBytesAreCutAsTheStandardRecommends) {
  std::set<std::string> beginnings;
  for_all_codes([&](char32_t code) {
    if (code % 64 != 0) return;  // the last byte ends a character
    const std::string bytes = encoding_of(code);
    for (std::size_t n = 1; n < bytes.size(); ++n) beginnings.insert(bytes.substr(0, n));
  });
  const std::string bytes(
      "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff");
  Random random(1);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (std::size_t n = random() % 9; n > 0; --n) text += bytes[random() % bytes.size()];
    std::vector<std::tuple<char32_t, std::uint32_t, std::uint32_t>> expected, found;
    for (std::size_t at = 0; at < text.size();) {
      utf8proc_int32_t code = -1;
      auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                     static_cast<utf8proc_ssize_t>(text.size() - at), &code);
      if (length <= 0) {
        code = 0xfffd;
        length = 1;
        while (at + static_cast<std::size_t>(length) < text.size() &&
               beginnings.contains(text.substr(at, static_cast<std::size_t>(length) + 1))) {
          ++length;
        }
      }
      expected.emplace_back(code, at, at + static_cast<std::size_t>(length));
      at += static_cast<std::size_t>(length);
    }
    for (const Char& c : chars_of(text)) found.emplace_back(c.code, c.begin, c.end);
    ASSERT_EQ(found, expected) << testing::PrintToString(text);
  }
}

TEST(TextOracles, KindsAreTheCategoriesOfUnicode) {
  using Names = std::set<std::string>;
  const Names letters{"Lu", "Ll", "Lt", "Lm", "Lo"}, numbers{"Nd", "Nl", "No"}, spaces{"Zs", "Zl", "Zp"},
      punctuation{"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}, others{"Cc", "Cf", "Cs", "Co", "Cn"},
      words{"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"};
  for_all_codes([&](char32_t code) {
    const std::string kind = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    const bool control_space = (code >= 9 && code <= 13) || code == 0x85;
    const bool circled = code >= 0x24b6 && code <= 0x24e9, joiner = code == 0x200c || code == 0x200d;
    ASSERT_EQ(is_letter(code), letters.contains(kind)) << kind;
    ASSERT_EQ(is_number(code), numbers.contains(kind)) << kind;
    ASSERT_EQ(is_space(code), spaces.contains(kind) || control_space) << kind;
    ASSERT_EQ(is_punctuation(code), punctuation.contains(kind)) << kind;
    ASSERT_EQ(is_other(code), others.contains(kind)) << kind;
    ASSERT_EQ(is_nonspacing_mark(code), kind == "Mn") << kind;
    ASSERT_EQ(is_word(code), words.contains(kind) || circled || joiner) << kind;
  });
}

TEST(TextOracles, NormalFormsAreThoseOfUtf8proc) {
  const std::vector<std::string> letters = {"a",          "e",      "\u00e9", "\u1e9b", "\u0323", "\u0301",
                                            "\u0305",     "\u0315", "\u0327", "\u212b", "\ufb01", "\uac00",
                                            "\u1100",     "\u1161", "\u11a8", "\u0958", "\u093c", "\u0915",
                                            "\U0001d15e", "\u0344", "\u1fef", "\u0f71", "\u0f72"};
  Random random(2);
  for (int round = 0; round < 4000; ++round) {
    const std::string text = random_text(random, letters, 7);
    for (const bool composed : {false, true}) {
      for (const bool compatible : {false, true}) {
        const auto options = static_cast<utf8proc_option_t>(
            UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0));
        utf8proc_uint8_t* made = nullptr;
        const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &made, options);
        ASSERT_GE(size, 0);
        const std::string expected(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
        std::free(made);
        ASSERT_EQ(utf8_of(normal_form(chars_of(text), composed, compatible)), expected)
            << testing::PrintToString(text) << composed << compatible;
      }
    }
  }
}

// GPT-2's table as it is usually told: the bytes that print, and then all others from U+0100 on.
TEST(TextOracles, LettersOfBytes) {
  std::map<int, char32_t> letters;
  for (int byte = '!'; byte <= '~'; ++byte) letters[byte] = static_cast<char32_t>(byte);
  for (int byte = 0xa1; byte <= 0xac; ++byte) letters[byte] = static_cast<char32_t>(byte);
  for (int byte = 0xae; byte <= 0xff; ++byte) letters[byte] = static_cast<char32_t>(byte);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    if (!letters.contains(byte)) letters[byte] = next++;
  }
  std::map<char32_t, int> bytes;
  for (const auto& [byte, letter] : letters) {
    EXPECT_EQ(char_of_byte(static_cast<unsigned char>(byte)), letter);
    bytes[letter] = byte;
  }
  for (char32_t code = 0; code < 0x400; ++code) EXPECT_EQ(byte_of_char(code), bytes.contains(code) ? bytes[code] : -1);
}

// ---- models

using Tokens = std::vector<std::pair<std::string, std::int64_t>>;

std::vector<std::string> texts_of(const Model& model, const std::string& word) {
  std::vector<std::string> texts;
  std::size_t end = 0;
  for (const Span& span : model.tokenize(chars_of(word))) {
    EXPECT_EQ(span.first, end) << "tokens stand side by side";
    end = span.last;
    texts.push_back(*model.vocabulary().text_of(span.id));
  }
  return texts;
}

// All letters, and tokens that are two others.
Tokens random_tokens(Random& random, std::size_t count) {
  std::vector<std::string> texts = {"a", "b", "c"};
  while (texts.size() < count) {
    const std::string made = texts[random() % texts.size()] + texts[random() % texts.size()];
    if (made.size() < 8 && std::find(texts.begin(), texts.end(), made) == texts.end()) texts.push_back(made);
  }
  std::shuffle(texts.begin(), texts.end(), random);
  Tokens tokens;
  for (std::size_t n = 0; n < texts.size(); ++n) tokens.emplace_back(texts[n], static_cast<std::int64_t>(n));
  return tokens;
}

// Of all neighbours that may merge, those of the least rank, the first among equals; until none may.
template <class Rank>
std::vector<std::string> merged_by_scanning(const std::string& word, const Rank& rank_of) {
  std::vector<std::string> parts;
  for (const char letter : word) parts.emplace_back(1, letter);
  for (;;) {
    std::optional<double> least;
    std::size_t place = 0;
    for (std::size_t n = 0; n + 1 < parts.size(); ++n) {
      const std::optional<double> rank = rank_of(parts[n], parts[n + 1]);
      if (!rank || (least && *least <= *rank)) continue;
      least = rank;
      place = n;
    }
    if (!least) return parts;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(TextOracles, BytePairsMergeAsByScanning) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const Tokens tokens = random_tokens(random, 12);
    std::vector<Merge> merges;
    std::map<std::pair<std::string, std::string>, double> ranks;
    for (const auto& [token, id] : tokens) {
      for (std::size_t cut = 1; cut < token.size(); ++cut) {
        const std::string left = token.substr(0, cut), right = token.substr(cut);
        const auto has = [&](const std::string& text) {
          return std::any_of(tokens.begin(), tokens.end(), [&](const auto& one) { return one.first == text; });
        };
        if (has(left) && has(right) && random() % 4 != 0) merges.push_back({left, right, 0});
      }
    }
    std::shuffle(merges.begin(), merges.end(), random);
    for (std::size_t n = 0; n < merges.size(); ++n) {
      merges[n].rank = static_cast<std::int64_t>(n);
      ranks[{merges[n].left, merges[n].right}] = static_cast<double>(n);
    }
    const auto model = make_bpe(Vocabulary(tokens, "test"), merges, {}, "test");
    for (int n = 0; n < 20; ++n) {
      const std::string word = random_text(random, {"a", "b", "c"}, 14);
      const auto rank_of = [&](const std::string& left, const std::string& right) -> std::optional<double> {
        const auto found = ranks.find({left, right});
        return found == ranks.end() ? std::nullopt : std::optional(found->second);
      };
      ASSERT_EQ(texts_of(*model, word), merged_by_scanning(word, rank_of)) << word;
    }
  }
}

TEST(TextOracles, TokensOfTheBestScoreMergeFirst) {
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    const Tokens tokens = random_tokens(random, 12);
    std::vector<double> scores(tokens.size());
    for (double& score : scores) score = -static_cast<double>(random() % 6);  // some alike
    std::map<std::string, double> score_of;
    for (const auto& [token, id] : tokens) score_of[token] = scores[static_cast<std::size_t>(id)];
    const auto model = make_scored_bpe(Vocabulary(tokens, "test"), scores, {}, "test");
    for (int n = 0; n < 20; ++n) {
      const std::string word = random_text(random, {"a", "b", "c"}, 14);
      const auto rank_of = [&](const std::string& left, const std::string& right) -> std::optional<double> {
        const auto found = score_of.find(left + right);
        return found == score_of.end() ? std::nullopt : std::optional(-found->second);
      };
      ASSERT_EQ(texts_of(*model, word), merged_by_scanning(word, rank_of)) << word;
    }
  }
}

// The score of the best of all ways to cut a word. A letter without a token of its own weighs `unknown`.
double best_score(const std::string& word, const std::map<std::string, double>& scores, double unknown) {
  if (word.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t cut = 1; cut <= word.size(); ++cut) {
    const auto first = scores.find(word.substr(0, cut));
    if (first == scores.end() && cut > 1) continue;
    const double own = first == scores.end() ? unknown : first->second;
    best = std::max(best, own + best_score(word.substr(cut), scores, unknown));
  }
  return best;
}

TEST(TextOracles, UnigramsAreTheBestOfAllWays) {
  Random random(5);
  for (int round = 0; round < 60; ++round) {
    Tokens tokens = random_tokens(random, 12);  // the letter x has none
    std::vector<double> scores(tokens.size() + 1);
    for (double& score : scores) score = -std::uniform_real_distribution<double>(0.5, 12)(random);
    std::map<std::string, double> score_of;
    for (const auto& [token, id] : tokens) score_of[token] = scores[static_cast<std::size_t>(id)];
    const auto none = static_cast<Id>(tokens.size());
    tokens.emplace_back("?", none);
    const auto model = make_unigram(Vocabulary(tokens, "test"), scores, {.unknown = none}, "test");
    const double unknown = *std::min_element(scores.begin(), scores.end()) - 10;
    for (int n = 0; n < 20; ++n) {
      const std::string word = random_text(random, {"a", "b", "c", "x"}, 10);
      double score = 0;
      std::string joined;
      Id last = -1;
      for (const Span& span : model->tokenize(chars_of(word))) {
        const std::string part = word.substr(span.first, span.last - span.first);
        joined += part;
        if (span.id == none) {
          EXPECT_NE(last, none) << "unknown letters in a row are one";
          EXPECT_EQ(part, std::string(part.size(), 'x'));
          score += static_cast<double>(part.size()) * unknown;
        } else {
          EXPECT_EQ(*model->vocabulary().text_of(span.id), part);
          score += score_of.at(part);
        }
        last = span.id;
      }
      ASSERT_EQ(joined, word);
      ASSERT_NEAR(score, best_score(word, score_of, unknown), 1e-9) << word;
    }
  }
}

TEST(TextOracles, WordPiecesAreTheLongestThatFit) {
  Random random(6);
  for (int round = 0; round < 60; ++round) {
    std::set<std::string> texts = {"a", "##b", "\u00e9"};
    while (texts.size() < 14) {
      texts.insert((random() % 2 != 0 ? "##" : "") + random_text(random, {"a", "b", "\u00e9"}, 4) + "a");
    }
    Tokens tokens = {{"[UNK]", 0}};
    for (const std::string& text : texts) tokens.emplace_back(text, tokens.size());
    const std::size_t longest = 6 + random() % 6;
    const auto model = make_word_piece(Vocabulary(tokens, "test"), {.longest = longest}, "test");
    for (int n = 0; n < 20; ++n) {
      const std::string word = random_text(random, {"a", "b", "\u00e9"}, 12);
      const std::size_t letters = chars_of(word).size();
      std::vector<std::string> expected;
      for (std::string rest = word; !rest.empty() && letters <= longest;) {
        std::string best;
        for (const std::string& text : texts) {
          const bool continues = text.starts_with("##");
          if (continues == expected.empty()) continue;
          const std::string own = continues ? text.substr(2) : text;
          if (rest.starts_with(own) && own.size() > best.size()) best = own;
        }
        if (best.empty()) {
          expected.clear();
          break;
        }
        rest.erase(0, best.size());
        expected.push_back(expected.empty() ? best : "##" + best);
      }
      if (expected.empty() && !word.empty()) expected = {"[UNK]"};
      ASSERT_EQ(texts_of(*model, word), expected) << word << ' ' << longest;
    }
  }
}

// ---- cutting

std::vector<std::string> matches_of(const std::regex& regex, const std::string& text) {
  std::vector<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) all.push_back(at->str());
  return all;
}

// The expressions of the three families, for ASCII.
TEST(TextOracles, PatternsCutAsTheirRegularExpressions) {
  const std::string after = R"(| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string before = R"('[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\nA-Za-z0-9]?[A-Za-z]+|)";
  const std::vector<std::pair<SplitPattern, std::regex>> pairs = {
      {kGpt2Pattern, std::regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+)")},
      {kLlama3Pattern, std::regex(before + "[0-9]{1,3}" + after)},
      {kQwen2Pattern, std::regex(before + "[0-9]" + after)}};
  const std::vector<std::string> letters = {"a", "S", "e", "l", "v",  "D",  "r",  "T", "m", "1", "2", "'", "'", "!",
                                            "-", " ", " ", " ", "\n", "\r", "\t", "_", "`", "{", "@", "[", "/"};
  Random random(7);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random, letters, 16);
    const Chars chars = chars_of(text);
    for (const auto& [pattern, regex] : pairs) {
      std::vector<std::string> cut;
      for (std::size_t at = 0, end = 0; at < chars.size(); at = end) {
        end = pattern.end_of(chars, at);
        ASSERT_GT(end, at);
        cut.push_back(text.substr(at, end - at));
      }
      ASSERT_EQ(cut, matches_of(regex, text)) << testing::PrintToString(text) << pattern.numerals;
    }
  }
}

TEST(TextOracles, BehavioursOfCutsAreTheirRegularExpressions) {
  const std::string split = R"({"type":"Split","pattern":{"String":"--"},"behavior":")";
  // A letter that is not "-", or a "-" that begins no "--" where the text is read from the front.
  const std::string other = "(?:[^-]|-(?!-))";
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {split + "Isolated\"}", "--|" + other + "+"},
      {split + "MergedWithPrevious\"}", other + "*--|" + other + "+"},
      {split + "MergedWithNext\"}", "--" + other + "*|" + other + "+"},
      {split + "Contiguous\"}", "(?:--)+|" + other + "+"},
      {R"({"type":"Digits","individual_digits":true})", "[0-9]|[^0-9]+"},
      {R"({"type":"Digits","individual_digits":false})", "[0-9]+|[^0-9]+"},
      {R"({"type":"BertPreTokenizer"})", R"([!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+)"},
      {R"({"type":"Metaspace","replacement":"_","prepend_scheme":"never"})", "_[^_]*|[^_]+"}};
  Random random(8);
  for (const auto& [json, expression] : pairs) {
    const PreTokenizer cut = read_pre_tokenizer(io::parse_json(json, "test"), "test");
    const std::regex regex(expression);
    for (int round = 0; round < 600; ++round) {
      const std::string text = random_text(random, {"a", "b", "-", "-", "1", "2", "_", "~", "{", "`", "!"}, 12);
      std::vector<Chars> pieces = {chars_of(text)};
      if (text.empty()) continue;
      cut(pieces);
      std::vector<std::string> texts;
      for (const Chars& piece : pieces) texts.push_back(utf8_of(piece));
      ASSERT_EQ(texts, matches_of(regex, text)) << json << ' ' << text;
    }
  }
}

}  // namespace
}  // namespace polyhead::text
