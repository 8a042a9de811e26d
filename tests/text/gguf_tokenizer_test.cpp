// Tokenizers from GGUF's metadata. Byte-level and WordPiece ones say what the tokenizer.json says that they were made
// from; SentencePiece's have scores instead of merges, and are judged by hand and by SentencePiece.
#include <gtest/gtest.h>

#include "text/fixtures.h"

namespace polyhead::text {
namespace {

// Tokens in the order of their numbers; added ones are control tokens.
io::Json metadata_of(const io::Json& json, const std::string& kind, const std::string& pre) {
  std::vector<std::string> tokens;
  const auto put = [&](const std::string& text, std::size_t id) {
    if (tokens.size() <= id) tokens.resize(id + 1);
    tokens[id] = text;
  };
  for (const auto& [token, id] : json.at("model").at("vocab").items()) put(token, id.get<std::size_t>());
  for (const io::Json& token : json.at("added_tokens")) put(token.at("content"), token.at("id"));
  std::vector<int> types(tokens.size(), 1);
  for (const io::Json& token : json.at("added_tokens")) types[token.at("id").get<std::size_t>()] = 3;
  io::Json metadata = {
      {"tokenizer.ggml.model", kind}, {"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.token_type", types}};
  if (!pre.empty()) metadata["tokenizer.ggml.pre"] = pre;
  return metadata;
}

void expect_same(const Tokenizer& found, const std::string& kind) {
  const Tokenizer expected = load_tokenizer(fixture(kind + ".json"));
  EXPECT_EQ(found.size(), expected.size());
  for (const io::Json& line : fixture_json(kind + ".expected.json")) {
    const auto text = line.at("text").get<std::string>();
    const auto a = found.encode(text, false), b = expected.encode(text, false);
    EXPECT_EQ(ids_of(a), ids_of(b)) << kind << ": " << text;
    EXPECT_EQ(found.decode(ids_of(a)), expected.decode(ids_of(b))) << kind << ": " << text;
  }
}

TEST(GgufTokenizer, ByteLevel) {
  for (const auto& [kind, pre] : {std::pair<std::string, std::string>{"gpt2", "gpt-2"},
                                  {"smollm2", "smollm"},
                                  {"llama3", "llama-bpe"},
                                  {"llama3", "llama-v3"},
                                  {"qwen2", "qwen2"}}) {
    const io::Json json = fixture_json(kind + ".json");
    io::Json metadata = metadata_of(json, "gpt2", pre);
    for (const io::Json& merge : json.at("model").at("merges")) {
      metadata["tokenizer.ggml.merges"].push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
    metadata["tokenizer.ggml.bos_token_id"] = 0;
    expect_same(tokenizer_from_gguf(metadata, "a.gguf"), kind);
    const bool begins = kind == "llama3";  // llama.cpp knows it by the word
    EXPECT_EQ(tokenizer_from_gguf(metadata, "a.gguf").encode("").size(), begins ? 1u : 0u) << kind;
    metadata["tokenizer.ggml.add_bos_token"] = false;
    EXPECT_TRUE(tokenizer_from_gguf(metadata, "a.gguf").encode("").empty()) << kind;
    metadata["tokenizer.ggml.add_bos_token"] = true;
    EXPECT_EQ(ids_of(tokenizer_from_gguf(metadata, "a.gguf").encode("")), std::vector<Id>{0});
    metadata["tokenizer.ggml.pre"] = "viking";
    io::expect_error(ErrorCode::input, {"a.gguf", "\"viking\"", "gpt-2", "smollm"},
                     [&] { return tokenizer_from_gguf(metadata, "a.gguf"); });
  }
}

TEST(GgufTokenizer, WordPiece) {
  io::Json metadata = metadata_of(fixture_json("bert.json"), "bert", "");
  for (io::Json& token : metadata["tokenizer.ggml.tokens"]) {
    const auto text = token.get<std::string>();
    if (text.starts_with('[') && text.ends_with(']')) continue;
    token = text.starts_with("##") ? text.substr(2) : "\u2581" + text;
  }
  metadata["tokenizer.ggml.bos_token_id"] = 2;
  metadata["tokenizer.ggml.seperator_token_id"] = 3;
  const Tokenizer tokenizer = tokenizer_from_gguf(metadata, "a.gguf");
  expect_same(tokenizer, "bert");
  EXPECT_EQ(ids_of(tokenizer.encode("")), (std::vector<Id>{2, 3}));
  metadata.erase("tokenizer.ggml.bos_token_id");
  metadata.erase("tokenizer.ggml.seperator_token_id");
  EXPECT_EQ(ids_of(tokenizer_from_gguf(metadata, "a.gguf").encode("")), (std::vector<Id>{101, 102}))
      << "as BERT has them";
}

// Files that do not say how text is cut, or say "default": punctuation first, so that no blank goes along with it; then
// as GPT-2 does, but numbers without their blank and by three digits. Words of letters take theirs.
TEST(GgufTokenizer, CutsAsLlamaCppDoesWhereNothingIsSaid) {
  io::Json json = {{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.tokens", byte_letters()}};
  json["tokenizer.ggml.merges"] = io::Json::array();
  // Any two letters in a row merge, so that pieces are seen.
  const auto merges = [&](const std::string& left, const std::string& right) {
    json["tokenizer.ggml.tokens"].push_back(left + right);
    json["tokenizer.ggml.merges"].push_back(left + " " + right);
  };
  merges("\u0120", "!");
  merges("\u0120", "a");
  merges("\u0120", "1");
  merges("!", "!");
  merges("1", "2");
  merges("12", "3");
  merges("3", "4");
  merges("`", "!");
  const auto pieces = [&](const std::string& text) {
    const Tokenizer tokenizer = tokenizer_from_gguf(json, "a.gguf");
    std::vector<std::string> found;
    for (const Token& token : tokenizer.encode(text)) found.push_back(*tokenizer.text_of(token.id));
    return found;
  };
  using Texts = std::vector<std::string>;
  const Texts expected{"\u0120a", "\u0120", "!!", "\u0120", "123", "4", "`", "!"};
  EXPECT_EQ(pieces(" a !! 1234`!"), expected);
  json["tokenizer.ggml.pre"] = "default";
  EXPECT_EQ(pieces(" a !! 1234`!"), expected);
  json["tokenizer.ggml.pre"] = "gpt-2";
  EXPECT_EQ(pieces(" a !! 1234`!"), (Texts{"\u0120a", "\u0120!", "!", "\u01201", "2", "34", "`!"}));
}

TEST(GgufTokenizer, SentencePiece) {
  io::Json metadata = {
      {"tokenizer.ggml.model", "llama"},
      {"tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<x>", "\u2581", "a", "b", "c", "bc", "ab", "\u2581a", "abc"}},
      {"tokenizer.ggml.scores", {0, 0, 0, 0, -9, -9, -9, -9, -1, -2, -3, -4}},
      {"tokenizer.ggml.token_type", {2, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}},
      {"tokenizer.ggml.bos_token_id", 1}};
  const Tokenizer tokenizer = tokenizer_from_gguf(metadata, "a.gguf");
  const auto ids = [&](const std::string& text) { return ids_of(tokenizer.encode(text)); };
  EXPECT_EQ(ids("ab"), (std::vector<Id>{1, 4, 9}));    // ab scores better than _a
  EXPECT_EQ(ids("abc"), (std::vector<Id>{1, 10, 8}));  // bc first; then _a, which scores better than abc
  EXPECT_EQ(ids("b abc"), (std::vector<Id>{1, 4, 6, 10, 8}));
  EXPECT_EQ(ids("azz"), (std::vector<Id>{1, 10, 0}));  // unknown ones are one
  EXPECT_EQ(ids("a</s>a"), (std::vector<Id>{1, 10, 2, 10}));
  EXPECT_EQ(tokenizer.decode(ids("b abc")), "b abc");
  io::Json bytes = metadata;
  for (const std::string& byte : byte_tokens()) {
    bytes["tokenizer.ggml.tokens"].push_back(byte);
    bytes["tokenizer.ggml.scores"].push_back(0);
    bytes["tokenizer.ggml.token_type"].push_back(6);
  }
  const Tokenizer fallen = tokenizer_from_gguf(bytes, "a.gguf");
  EXPECT_EQ(ids_of(fallen.encode("a\n")), (std::vector<Id>{1, 10, 12 + '\n'}));
  EXPECT_EQ(fallen.decode(ids_of(fallen.encode("b abz\n"))), "b abz\n");
  metadata["tokenizer.ggml.add_space_prefix"] = false;
  EXPECT_EQ(ids_of(tokenizer_from_gguf(metadata, "a.gguf").encode("ab")), (std::vector<Id>{1, 9}));
  metadata.erase("tokenizer.ggml.bos_token_id");
  EXPECT_EQ(ids_of(tokenizer_from_gguf(metadata, "a.gguf").encode("ab")), (std::vector<Id>{1, 9})) << "1 by itself";
  // The end, another unknown token, and tokens that users defined.
  io::Json other = metadata;
  other["tokenizer.ggml.eos_token_id"] = 2;
  EXPECT_EQ(ids_of(tokenizer_from_gguf(other, "a.gguf").encode("ab")), (std::vector<Id>{1, 9}));
  other["tokenizer.ggml.add_eos_token"] = true;
  EXPECT_EQ(ids_of(tokenizer_from_gguf(other, "a.gguf").encode("ab")), (std::vector<Id>{1, 9, 2}));
  other["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(ids_of(tokenizer_from_gguf(other, "a.gguf").encode("ab")), (std::vector<Id>{9, 2}));
  other["tokenizer.ggml.unknown_token_id"] = 7;
  EXPECT_EQ(ids_of(tokenizer_from_gguf(other, "a.gguf").encode("az", false)), (std::vector<Id>{5, 7}));
  other["tokenizer.ggml.token_type"][9] = 4;
  const Tokenizer defined = tokenizer_from_gguf(other, "a.gguf");
  EXPECT_EQ(ids_of(defined.encode("abc", false)), (std::vector<Id>{9, 7})) << "as a whole, before anything merges";
  EXPECT_EQ(defined.decode(std::vector<Id>{0, 5, 2, 9}), "aab") << "control and unknown tokens are special";
  metadata["tokenizer.ggml.scores"].push_back(0);
  io::expect_error(ErrorCode::input, {"a.gguf", "score for each of 12 tokens, found 13"},
                   [&] { return tokenizer_from_gguf(metadata, "a.gguf"); });
  for (int n = 0; n < 2; ++n) metadata["tokenizer.ggml.scores"].erase(0);
  io::expect_error(ErrorCode::input, {"a.gguf", "score for each of 12 tokens, found 11"},
                   [&] { return tokenizer_from_gguf(metadata, "a.gguf"); });
}

// What SentencePiece itself made of texts, by the model that the files were made from (tools/tokenizer-fixtures).
TEST(GgufTokenizer, SaysWhatSentencePieceDoes) {
  for (const std::string kind : {"sentencepiece_bpe", "sentencepiece_unigram"}) {
    const Tokenizer tokenizer = load_tokenizer(fixture(kind + ".gguf"));
    for (const io::Json& line : fixture_json(kind + ".expected.json")) {
      const std::vector<Id> ids = ids_of(tokenizer.encode(line.at("text").get<std::string>()));
      EXPECT_EQ(ids, line.at("ids").get<std::vector<Id>>()) << kind << ": " << line.at("text");
      EXPECT_EQ(tokenizer.decode(ids), line.at("decoded").get<std::string>()) << kind << ": " << line.at("text");
    }
  }
}

// Places are those of the text before it was changed.
TEST(GgufTokenizer, PlacesOfWhatWasReplaced) {
  const Tokenizer tokenizer = load_tokenizer(fixture("sentencepiece_unigram.gguf"));
  const std::string text = "  A\ufb01  e\u0301 ";
  std::vector<std::string> parts;
  for (const Token& token : tokenizer.encode(text, false))
    parts.push_back(text.substr(token.begin, token.end - token.begin));
  const auto one_of = [&](const std::string& part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  EXPECT_TRUE(one_of("A")) << ::testing::PrintToString(parts);
  EXPECT_TRUE(one_of("\ufb01")) << ::testing::PrintToString(parts);
  EXPECT_TRUE(one_of("e\u0301")) << ::testing::PrintToString(parts);
}

TEST(GgufTokenizer, TablesOfReplacementsThatAreNone) {
  io::Json metadata = {{"tokenizer.ggml.model", "t5"},
                       {"tokenizer.ggml.tokens", {"<pad>", "</s>", "<unk>", "a"}},
                       {"tokenizer.ggml.token_type", {3, 3, 2, 1}},
                       {"tokenizer.ggml.scores", {0, 0, 0, -1}}};
  EXPECT_EQ(ids_of(tokenizer_from_gguf(metadata, "a.gguf").encode("aab")), (std::vector<Id>{3, 3, 2, 1}));
  const auto with = [&](const std::vector<int>& bytes) {
    metadata["tokenizer.ggml.precompiled_charsmap"] = bytes;
    return tokenizer_from_gguf(metadata, "a.gguf").encode("aab");
  };
  for (const std::vector<int>& bytes : std::vector<std::vector<int>>{{1},
                                                                     {0, 0, 0, 0, 0},
                                                                     {8, 0, 0, 0, 1, 2, 3, 0},
                                                                     {3, 0, 0, 0, 1, 2, 3, 0},
                                                                     {4, 0, 0, 0, 1, 2, 3, 4, 5},
                                                                     {-1, -1, -1, -1, 0, 0, 0, 0, 0}}) {
    io::expect_error(ErrorCode::input, {"a.gguf", "precompiled_charsmap", "trie"}, [&] { return with(bytes); });
  }
  std::vector<int> endless(4 + 4 + 257, 1);  // one text would become a very long one
  std::fill_n(endless.begin(), 8, 0);
  endless[0] = 4;
  endless.push_back(0);
  io::expect_error(ErrorCode::input, {"replacements of up to 256 bytes", "found one of 257"},
                   [&] { return with(endless); });
  endless.erase(endless.end() - 2);
  EXPECT_EQ(ids_of(with(endless)), (std::vector<Id>{3, 3, 2, 1}));
  // A trie that leads nowhere, and one that leads outside.
  EXPECT_EQ(ids_of(with({4, 0, 0, 0, 0, 0, 0, 0, 0})), (std::vector<Id>{3, 3, 2, 1}));
  EXPECT_EQ(ids_of(with({4, 0, 0, 0, -1, -1, -1, -1, 0})), (std::vector<Id>{3, 3, 2, 1}));
}

TEST(GgufTokenizer, Others) {
  io::expect_error(ErrorCode::input, {"a.gguf", "\"rwkv\"", "gpt2, llama, bert, t5"}, [] {
    return tokenizer_from_gguf({{"tokenizer.ggml.model", "rwkv"}, {"tokenizer.ggml.tokens", io::Json::array()}},
                               "a.gguf");
  });
  io::expect_error(ErrorCode::input, {"tokenizer.ggml.model"},
                   [] { return tokenizer_from_gguf(io::Json::object(), "a.gguf"); });
  io::expect_error(ErrorCode::input, {"tokenizer.ggml.tokens"}, [] {
    return tokenizer_from_gguf({{"tokenizer.ggml.model", "gpt2"}}, "a.gguf");
  });
}

// A blank at the beginning of a merge is its first token, or the first letter of it.
TEST(GgufTokenizer, MergesMayBeginWithABlank) {
  io::Json json = {
      {"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.tokens", byte_letters()}, {"tokenizer.ggml.merges", {"  b"}}};
  for (const char* token : {" ", " b"}) json["tokenizer.ggml.tokens"].push_back(token);
  EXPECT_EQ(tokenizer_from_gguf(json, "test").size(), 258);
  json["tokenizer.ggml.tokens"][0x41] = "another";
  io::expect_error(ErrorCode::value, {"a character with <0x41> at byte 1", "no token"},
                   [&] { return tokenizer_from_gguf(json, "a.gguf").encode("bA"); });
}

}  // namespace
}  // namespace polyhead::text
