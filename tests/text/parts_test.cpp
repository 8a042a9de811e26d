// Parts of tokenizers one by one, on vocabularies small enough to see what must come out.
#include <gtest/gtest.h>

#include "text/fixtures.h"
#include "text/patterns.h"

namespace polyhead::text {
namespace {

using Ids = std::vector<Id>;

Tokenizer made(const std::string& json) { return tokenizer_from_json(io::parse_json(json, "test"), "test"); }
Ids encoded(const std::string& json, const std::string& text) { return ids_of(made(json).encode(text)); }

std::string bpe(const std::string& vocabulary, const std::string& merges) {
  return R"({"model":{"type":"BPE","vocab":)" + vocabulary + R"(,"merges":)" + merges + "}}";
}

// What has been merged is offered to both neighbours.
TEST(Bpe, WhatWasMergedMergesOn) {
  const std::string vocabulary = R"({"x":0,"a":1,"b":2,"ab":3,"xab":4,"abx":5})";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"],["x","ab"]])"), "xab"), Ids{4}) << "to the left";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"],["ab","x"]])"), "abx"), Ids{5}) << "to the right";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"]])"), "xabx"), (Ids{0, 3, 0}));
}

TEST(Bpe, TheEarlierRuleGoesFirstAndThenTheFirstPlace) {
  const std::string vocabulary = R"({"a":0,"b":1,"c":2,"ab":3,"bc":4,"aa":5})";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"],["b","c"]])"), "abc"), (Ids{3, 2}));
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["b","c"],["a","b"]])"), "abc"), (Ids{0, 4}));
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","a"]])"), "aaa"), (Ids{5, 0}));
}

TEST(WordPiece, AWordOfTheGreatestLengthIsStillCut) {
  const std::string json =
      R"({"model":{"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##","max_input_chars_per_word":3,
          "vocab":{"?":0,"a":1,"##a":2}}})";
  EXPECT_EQ(encoded(json, "aaa"), (Ids{1, 2, 2}));
  EXPECT_EQ(encoded(json, "aaaa"), Ids{0});
}

// One blank before the first token was put there and is nobody's; more were in the text.
TEST(RobertaProcessing, BlanksAreTrimmedFromOffsets) {
  const Tokenizer tokenizer = made(
      R"({"model":{"type":"BPE","vocab":{"Ġ":0,"ĠĠ":1,"ĠĠĠ":2,"a":3,"Ġa":4,"<s>":5},
                   "merges":[["Ġ","Ġ"],["ĠĠ","Ġ"],["Ġ","a"]]},
          "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},
          "post_processor":{"type":"RobertaProcessing","sep":["<s>",5],"cls":["<s>",5],"trim_offsets":true,
                            "add_prefix_space":true}})");
  const auto places = [&](const std::string& text) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (const Token& token : tokenizer.encode(text, false)) found.emplace_back(token.first_char, token.last_char);
    return found;
  };
  using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(places("a a"), (Places{{0, 1}, {2, 3}}));
  EXPECT_EQ(places("   "), (Places{{3, 3}}));
}

TEST(SplitPatterns, SignsTakeTheEndsOfTheirLineButNotInGpt2) {
  const Chars text = chars_of("!\n\nx");
  EXPECT_EQ(kLlama3Pattern.end_of(text, 0), 3u);
  EXPECT_EQ(kQwen2Pattern.end_of(text, 0), 3u);
  EXPECT_EQ(kGpt2Pattern.end_of(text, 0), 1u);
}

TEST(AddedTokens, CountAmongTheTokens) {
  const Tokenizer tokenizer = made(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
                                       "added_tokens":[{"id":7,"content":"<s>","special":true}]})");
  EXPECT_EQ(tokenizer.size(), 8) << "one more than the highest number";
  EXPECT_EQ(ids_of(tokenizer.encode("a<s>a")), (Ids{0, 7, 0}));
}

// What shows nothing goes, and every kind of white space is a blank.
TEST(BertNormalizer, CleansTheText) {
  const std::string json =
      R"({"model":{"type":"WordPiece","unk_token":"?","vocab":{"?":0,"ab":1,"a":2,"b":3}},
          "normalizer":{"type":"BertNormalizer","clean_text":true},"pre_tokenizer":{"type":"BertPreTokenizer"}})";
  for (const std::string& nothing :
       {std::string("\ufffd"), std::string(1, '\0'), std::string("\x01"), std::string("\u200b")}) {
    EXPECT_EQ(encoded(json, "a" + nothing + "b"), Ids{1});
  }
  for (const std::string blank : {"\t", "\n", "\u00a0", "\u3000"})
    EXPECT_EQ(encoded(json, "a" + blank + "b"), (Ids{2, 3}));
}

// A byte that is no UTF-8 becomes a sign of its own, as do all others of its run.
TEST(ByteFallback, EveryByteOfABrokenRunIsShown) {
  const Tokenizer tokenizer = made(
      R"({"model":{"type":"BPE","vocab":{"a":0,"<0xE4>":1,"<0xBD>":2,"<0xA0>":3},"merges":[]},
          "decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]}})");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2, 3, 0}),
            "a\u4f60"
            "a");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2, 0}),
            "a\ufffd\ufffd"
            "a");
}

}  // namespace
}  // namespace polyhead::text
