// A tokenizer.json that is wrong is an error that says so; thousands of spoilt ones crash nothing.
#include <gtest/gtest.h>

#include "support/mutator.h"
#include "text/fixtures.h"

namespace polyhead::text {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kSmall =
    R"({"added_tokens":[{"id":4,"content":"<s>","special":true}],"normalizer":{"type":"NFC"},)"
    R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"post_processor":null,"decoder":{"type":"ByteLevel"},)"
    R"("model":{"type":"BPE","unk_token":"c","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":["a b"]}})";

// The small file with one field set: the path is a JSON pointer.
void expect_refused(const std::string& path, const char* value, Words words) {
  io::Json json = io::parse_json(kSmall, "small");
  json[io::Json::json_pointer(path)] = io::parse_json(value, "value");
  words.insert(words.begin(), "t.json");
  SCOPED_TRACE(path + " = " + value);
  io::expect_error(ErrorCode::input, words, [&] { return tokenizer_from_json(json, "t.json"); });
}

TEST(TokenizerReject, NothingFromTheGoodFile) {
  const Tokenizer tokenizer = tokenizer_from_json(io::parse_json(kSmall, "t.json"), "t.json");
  EXPECT_EQ(ids_of(tokenizer.encode("abc<s>")), (std::vector<Id>{2, 3, 4}));
}

TEST(TokenizerReject, Vocabularies) {
  expect_refused("/model", "null", {"model"});
  expect_refused("/model/type", "\"CharLevel\"", {"\"CharLevel\"", "BPE, Unigram, WordLevel, WordPiece"});
  expect_refused("/model/vocab", "[]", {"vocab"});
  expect_refused("/model/vocab/b", "0", {"\"b\"", "number 0", "\"a\""});
  expect_refused("/model/vocab/b", "-1", {"\"b\"", "found -1"});
  expect_refused("/model/vocab/b", "1.5", {"\"b\"", "found 1.5"});
  expect_refused("/model/vocab/b", "\"1\"", {"\"b\""});
  expect_refused("/model/vocab/b", "100000000", {"\"b\"", "100000000"});
  expect_refused("/model/unk_token", "\"<unk>\"", {"unk_token", "\"<unk>\""});
  expect_refused("/model", R"({"type":"WordPiece","vocab":{"a":0}})", {"unk_token", "[UNK]"});
  expect_refused("/model", R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0},"max_input_chars_per_word":10001})",
                 {"max_input_chars_per_word", "found 10001"});
  expect_refused("/model", R"({"type":"Unigram","vocab":[["a",0],["a",0]],"unk_id":0})", {"\"a\"", "twice"});
  expect_refused("/model", R"({"type":"Unigram","vocab":[["a",0]],"unk_id":1})", {"unk_id 1"});
  expect_refused("/model", R"({"type":"Unigram","vocab":[["a"]]})", {"entry 0"});
}

// Real vocabularies lack bytes that hardly any text has; where one is met, and nothing stands for the unknown, it must
// not be lost.
TEST(TokenizerReject, BytesWithoutAToken) {
  const char* two =
      R"({"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel","add_prefix_space":false}]})";
  io::Json json = io::parse_json(kSmall, "small");
  json["pre_tokenizer"] = io::parse_json(two, "two");
  json["model"].erase("unk_token");
  EXPECT_EQ(ids_of(tokenizer_from_json(json, "t.json").encode("cab")), (std::vector<Id>{3, 2}));
  io::expect_error(ErrorCode::value, {"a character with <0xC3> at byte 2", "no token", "leave it out"},
                   [&] { return tokenizer_from_json(json, "t.json").encode("ab\u00e9"); });
  for (const char* model : {R"({"type":"BPE","byte_fallback":true,"merges":[],"vocab":{"a":0,"<0xC3>":1}})",
                            R"({"type":"Unigram","byte_fallback":true,"vocab":[["a",0],["<0xC3>",0]]})"}) {
    const io::Json plain = {{"model", io::parse_json(model, "model")}};
    io::expect_error(ErrorCode::value, {"\"\\u00e9\" at byte 1", "no token"},
                     [&] { return tokenizer_from_json(plain, "t.json").encode("a\u00e9"); });
  }
}

TEST(TokenizerReject, Merges) {
  expect_refused("/model/merges", "{}", {"merges"});
  expect_refused("/model/merges/0", "\"ab\"", {"merge 0", "two tokens"});
  expect_refused("/model/merges/0", "\"a b c\"", {"merge 0"});
  expect_refused("/model/merges/0", "[\"a\"]", {"merge 0"});
  expect_refused("/model/merges/0", "\"a x\"", {"merge 0", "\"x\""});
  expect_refused("/model/merges/0", "\"a c\"", {"merge 0", "\"ac\""});
  expect_refused("/model/dropout", "0.1", {"dropout"});
}

TEST(TokenizerReject, AddedTokens) {
  expect_refused("/added_tokens/0/content", "\"\"", {"added token", "expected a text"});
  expect_refused("/added_tokens/0/id", "0", {"\"<s>\"", "number 0", "\"a\""});
  expect_refused("/added_tokens/0/id", "-1", {"id", "found -1"});
  expect_refused("/added_tokens/1", R"({"id":4,"content":"x"})", {"added token 4", "twice"});
  expect_refused("/added_tokens/1", R"({"id":9,"content":"<s>"})", {"added token 9", "\"<s>\"", "added token 4"});
  expect_refused("/added_tokens", "{}", {"added_tokens"});
}

TEST(TokenizerReject, Parts) {
  expect_refused("/normalizer", R"({"type":"Precompiled"})", {"normalizer", "\"Precompiled\"", "NFKC"});
  expect_refused("/normalizer", R"({"type":"Replace","pattern":{"Regex":"a"},"content":""})", {"regular expression"});
  expect_refused("/normalizer", R"({"type":"Replace","pattern":{"String":""},"content":""})", {"not empty"});
  expect_refused("/normalizer", "{}", {"normalizer", "type"});
  expect_refused("/pre_tokenizer", R"({"type":"ByteLevle"})", {"pre_tokenizer", "did you mean 'ByteLevel'"});
  expect_refused("/pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"(a+)+b"},"behavior":"Isolated"})",
                 {"Split", "GPT-2, Llama 3 or Qwen 2"});
  expect_refused("/pre_tokenizer", R"({"type":"Split","pattern":{"String":"a"},"behavior":"X"})",
                 {"behavior", "\"X\""});
  expect_refused("/post_processor", R"({"type":"BertProcessing","sep":["x",9],"cls":["y",0]})", {"no token 9"});
  expect_refused("/post_processor",
                 R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}})",
                 {"post_processor", "\"x\""});
  expect_refused("/decoder", R"({"type":"CTC"})", {"decoder", "\"CTC\""});
}

TEST(TokenizerReject, EveryTruncation) {
  const std::string whole = kSmall;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    io::expect_error(ErrorCode::input, {},
                     [&] { return tokenizer_from_json(io::parse_json(whole.substr(0, size), "t.json"), "t.json"); });
  }
}

TEST(TokenizerReject, SpoiltFilesAreRefusedOrUsed) {
  test::Mutator mutate;
  const std::string unigram =
      R"({"model":{"type":"Unigram","vocab":[["<unk>",0],["a",-1],["bc",-2.5],["\u2581",-3]],"unk_id":0},)"
      R"("pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first"},"decoder":{"type":"Metaspace"},)"
      R"("added_tokens":[{"id":9,"content":"<s>","lstrip":true,"special":true}],)"
      R"("post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"<s>"}}],)"
      R"("special_tokens":{"<s>":{"ids":[9]}}}})";
  test::expect_read_or_refused(
      6000,
      [&](int round) {
        const std::string mutant = mutate(round % 2 == 0 ? kSmall : unigram);
        const Tokenizer tokenizer = tokenizer_from_json(io::parse_json(mutant, "t.json"), "t.json");
        tokenizer.decode(ids_of(tokenizer.encode("a bc ab <s>c\xff\u00e9 1")), true);
      },
      ErrorCode::value);
}

// Gaps are allowed, of a size that cannot ask for much memory.
TEST(Vocabulary, TakesNumbersUpToALimit) {
  EXPECT_EQ(Vocabulary({{"a", 0}, {"b", 65540}}, "test").size(), 2u);
  EXPECT_THROW(Vocabulary({{"a", 0}, {"b", 65541}}, "test"), Error);
  EXPECT_THROW(Vocabulary({{"a", -1}}, "test"), Error);
}

// Where any two tokens may make a third, all ways to cut a token are looked at: a long one would take hours.
TEST(Vocabulary, TakesTokensUpToALength) {
  EXPECT_EQ(Vocabulary({{std::string(4096, 'a'), 0}}, "test").size(), 1u);
  io::expect_error(ErrorCode::input, {"t.gguf", "token 1: 20000000 bytes", "at most 4096"}, [] {
    return tokenizer_from_gguf({{"tokenizer.ggml.model", "llama"},
                                {"tokenizer.ggml.tokens", {"a", std::string(20'000'000, 'a')}},
                                {"tokenizer.ggml.scores", {0, 0}}},
                               "t.gguf");
  });
}

}  // namespace
}  // namespace polyhead::text
