// Tokenizers of every kind against what Hugging Face's `tokenizers` makes of the same texts (tools/tokenizer-fixtures;
// tests/parity compares many more).
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "text/fixtures.h"

namespace polyhead::text {
namespace {

class OfEveryKind : public ::testing::TestWithParam<std::string> {};

TEST_P(OfEveryKind, IdsOffsetsAndTextsAreTheLibrarys) {
  const Tokenizer tokenizer = load_tokenizer(fixture(GetParam() + ".json"));
  for (const io::Json& expected : fixture_json(GetParam() + ".expected.json")) {
    const auto text = expected.at("text").get<std::string>();
    SCOPED_TRACE(text);
    const std::vector<Token> tokens = tokenizer.encode(text);
    const std::vector<Id> ids = ids_of(tokens);
    ASSERT_EQ(ids, expected.at("ids").get<std::vector<Id>>());
    const Chars chars = chars_of(text);
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      const Token& token = tokens[n];
      EXPECT_EQ(token.first_char, expected.at("offsets")[n][0]) << n;
      EXPECT_EQ(token.last_char, expected.at("offsets")[n][1]) << n;
      const auto byte = [&](std::uint32_t place) { return place < chars.size() ? chars[place].begin : text.size(); };
      EXPECT_EQ(token.begin, byte(token.first_char)) << n;
      EXPECT_EQ(token.end, byte(token.last_char)) << n;
    }
    EXPECT_EQ(tokenizer.decode(ids), expected.at("decoded").get<std::string>());
  }
}

TEST_P(OfEveryKind, AnyBytesHaveTokens) {
  const Tokenizer tokenizer = load_tokenizer(fixture(GetParam() + ".json"));
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += {static_cast<char>(byte), static_cast<char>(255 - byte), 'a'};
  const std::vector<Token> tokens = tokenizer.encode(bytes, false);
  ASSERT_FALSE(tokens.empty());
  for (const Token& token : tokens) {
    EXPECT_LE(token.begin, token.end);
    EXPECT_LE(token.end, bytes.size());
    EXPECT_NE(tokenizer.text_of(token.id), nullptr);
    EXPECT_LT(token.id, tokenizer.size());
  }
}

// Merging takes n log n: the square of a million would take minutes.
TEST_P(OfEveryKind, AVeryLongWord) {
  const Tokenizer tokenizer = load_tokenizer(fixture(GetParam() + ".json"));
  const std::string word(200'000, 'a');
  const std::vector<Token> tokens = tokenizer.encode(word, false);
  ASSERT_FALSE(tokens.empty());
  EXPECT_EQ(tokens.back().end, word.size());
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, OfEveryKind, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param; });

TEST(Tokenizer, ByteLevelGivesBackEveryText) {
  for (const char* kind : {"gpt2", "llama3", "smollm2"}) {
    const Tokenizer tokenizer = load_tokenizer(fixture(std::string(kind) + ".json"));
    for (const std::string text : {"", " ", "a  b\n", "\u4e2d\u6587\U0001f600 x", "<|endoftext|>x<|eot_id|>"}) {
      EXPECT_EQ(tokenizer.decode(ids_of(tokenizer.encode(text, false)), true), text) << kind;
    }
    EXPECT_EQ(tokenizer.decode(ids_of(tokenizer.encode("a\xff", false))), "a\ufffd");
  }
}

// Their bytes one after the other are the text, also where a character falls apart into several tokens.
TEST(Tokenizer, PartsOfCharactersAreTheirBytes) {
  const std::string text = "\u4e2d\u2603\U0001f600";
  for (const char* kind : {"gpt2", "llama3", "smollm2", "llama2", "gemma", "unigram_bytes"}) {
    const Tokenizer tokenizer = load_tokenizer(fixture(std::string(kind) + ".json"));
    std::string bytes;
    std::size_t broken = 0;
    for (const Id id : ids_of(tokenizer.encode(text, false))) {
      const std::string alone = tokenizer.decode_alone(id);
      broken += utf8_of(chars_of(alone)) != alone;
      bytes += alone;
    }
    EXPECT_GT(broken, 1u) << kind;
    EXPECT_TRUE(bytes.ends_with(text)) << kind;
  }
}

TEST(Tokenizer, SpecialTokens) {
  const Tokenizer tokenizer = load_tokenizer(fixture("bert.json"));
  const std::vector<Token> with = tokenizer.encode("[MASK]"), without = tokenizer.encode("[MASK]", false);
  ASSERT_EQ(with.size(), 3u);
  ASSERT_EQ(without.size(), 1u);
  EXPECT_EQ(with[1].id, without[0].id);
  EXPECT_EQ(*tokenizer.text_of(with[0].id), "[CLS]");
  EXPECT_EQ(with[0].end, 0u);
  EXPECT_EQ(tokenizer.decode(ids_of(with)), "");
  EXPECT_EQ(tokenizer.decode(ids_of(with), true), "[CLS] [MASK] [SEP]");
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{-1, 1 << 30}), "");
}

// A folder with a tokenizer.json, as models come.
TEST(Tokenizer, OfAFolder) {
  const io::Scratch scratch;
  std::filesystem::copy_file(fixture("gpt2.json"), scratch / "tokenizer.json");
  EXPECT_EQ(load_tokenizer(scratch.folder()).size(), load_tokenizer(fixture("gpt2.json")).size());
}

}  // namespace
}  // namespace polyhead::text
