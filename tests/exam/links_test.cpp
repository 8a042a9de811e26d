#include "exam/links.h"

#include <gtest/gtest.h>

#include "io/scratch.h"
#include "support/kept.h"
#include "support/said.h"

namespace polyhead::exam {
namespace {

std::filesystem::path kept(const std::string& name) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/exam" / name;
}

class Links : public ::testing::Test {
 protected:
  std::vector<heads::Probe> load(const std::string& lines) {
    io::spill(scratch_ / "links.jsonl", lines);
    return load_links(scratch_ / "links.jsonl", *task_);
  }
  void expect_refused(const std::string& lines, const std::vector<std::string>& says) {
    io::expect_error(ErrorCode::input, says, [&] { load(lines); });
  }

  io::Scratch scratch_;
  std::unique_ptr<train::Task> task_ = train::make_task({.name = "grammar"});
};

const char* const kLine =
    R"({"tokens": "BOS today the king is old", "query": 4, "key": 3, "relation": "subject-verb"})";

TEST_F(Links, LinesWithTheSameTokensAreOneSequence) {
  const auto probes = load(std::string(kLine) + "\n\n" +
                           R"({"tokens": "BOS today the king is old", "query": 5, "key": 3, "relation": "what-of"})" +
                           "\n" + R"({"tokens": "BOS lately the king has", "query": 4, "key": 1, "relation": "when"})");
  ASSERT_EQ(probes.size(), 1u);
  const heads::Probe& probe = probes[0];
  EXPECT_EQ(probe.tokens.shape(), (Dims{2, 6}));
  EXPECT_EQ(probe.lengths.as<std::int32_t>()[0], 6);
  EXPECT_EQ(probe.lengths.as<std::int32_t>()[1], 5);
  EXPECT_EQ(task_->token_text(probe.tokens.as<std::int32_t>()[3]), "king");
  EXPECT_FALSE(probe.separators.as<bool>()[0]) << "BOS is the first token";
  ASSERT_EQ(probe.relations.size(), 6u);
  EXPECT_EQ(probe.relations[0].name, "predicts subject-verb");
  EXPECT_EQ(probe.relations[0].query, 3);
  EXPECT_EQ(probe.relations[1].name, "subject-verb");
  EXPECT_EQ(probe.relations[1].query, 4);
  EXPECT_EQ(probe.relations[5].sequence, 1);
  EXPECT_EQ(probe.relations[5].key, 1);
}

// As many as a pass takes, and then the rest; sequences are counted from 0 in each.
TEST_F(Links, ManySequencesAreSeveralProbes) {
  std::string lines;
  for (int n = 0; n < 33; ++n) {
    const std::string noun = n % 2 == 0 ? "king" : "queen";
    lines += R"({"tokens": "BOS today the )" + noun + R"( is old", "query": 4, "key": 3, "relation": "subject-verb"})";
    lines += "\n";
  }
  const auto probes = load(lines);
  ASSERT_EQ(probes.size(), 2u);
  EXPECT_EQ(probes[0].tokens.shape()[0], 32);
  EXPECT_EQ(probes[0].relations.back().sequence, 31);
  EXPECT_EQ(probes[1].tokens.shape()[0], 1);
  EXPECT_EQ(probes[1].relations.back().sequence, 0);
}

// An encoder sees what comes later, and predicts nothing.
TEST_F(Links, OfAnEncoderGoBothWays) {
  task_ = train::make_task({.name = "classify"});
  const auto probes = load(R"({"tokens": "CLS low B a", "query": 1, "key": 2, "relation": "value"})");
  ASSERT_EQ(probes[0].relations.size(), 1u);
  EXPECT_EQ(probes[0].relations[0].name, "value");
  EXPECT_EQ(probes[0].relations[0].key, 2);
  for (const auto& [query, key] : {std::pair{0, 3}, {3, 0}, {3, 3}, {0, 0}}) {
    const auto edge = load(R"({"tokens": "CLS low B a", "query": )" + std::to_string(query) + R"(, "key": )" +
                           std::to_string(key) + R"(, "relation": "value"})");
    EXPECT_EQ(edge[0].relations[0].query, query);
    EXPECT_EQ(edge[0].relations[0].key, key);
  }
  expect_refused(R"({"tokens": "CLS low B a", "query": 0, "key": 4, "relation": "x"})", {"key", "3"});
}

TEST_F(Links, OfALanguageModelMayBeginAtTheFirstToken) {
  const auto probes = load(R"({"tokens": "BOS the king is", "query": 1, "key": 0, "relation": "x"})");
  EXPECT_EQ(probes[0].relations[1].query, 1);
  EXPECT_EQ(probes[0].relations[1].key, 0);
}

// Every part of a line wrong in every way, and what is said to it beside the file that holds it.
TEST_F(Links, WhatIsWrongIsSaidWithItsLine) {
  Said said(scratch_.folder());
  const auto refused = [&](const std::string& lines) { said(lines, [&] { load(lines); }); };
  for (const char* lines : {"", "\n", "nonsense", "[]", "{}"}) refused(lines);
  refused(std::string(kLine) + "\nnonsense");
  const auto link = [&](const std::string& tokens, const std::string& query, const std::string& key,
                        const std::string& rest = R"("relation": "x")") {
    refused(R"({"tokens": )" + tokens + R"(, "query": )" + query + R"(, "key": )" + key + ", " + rest + "}");
  };
  const std::string words = R"("BOS the king is")";
  for (const char* query : {"-1", "0", "1", "2", "3", "4", "1.5", "\"2\""}) link(words, query, "0");
  for (const char* key : {"-1", "0", "1", "2", "3", "0.5", "null"}) link(words, "2", key);
  for (const char* tokens : {R"("")", R"("BOS the kng is")", "3", R"("BOS")"}) link(tokens, "2", "1");
  std::string all = "BOS";
  for (std::int64_t n = 1; n < task_->context(); ++n) all += " the";
  link("\"" + all + "\"", "2", "1");
  link("\"" + all + " the\"", "2", "1");
  for (const char* rest : {R"("relation": "")", R"("relation": 3)", R"("relation": "x", "kye": 1)", R"("text": "x")"}) {
    link(words, "2", "1", rest);
  }
  said("no file", [&] { load_links(scratch_ / "none.jsonl", *task_); });
  expect_kept(kept("links.txt"), said.text());
}

// Letters are tokens, and so is "cd"; <s> stands before every text, a line's end behind that of an encoder.
constexpr const char* kTokenizer =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3," ":4,"é":5,"cd":6,"<s>":7,"\n":8},"merges":[["c","d"]]},
        "pre_tokenizer":{"type":"BertPreTokenizer"},"added_tokens":[{"id":7,"content":"<s>","special":true}],
        "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
          {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"n","type_id":0}}],
          "special_tokens":{"<s>":{"id":"<s>","ids":[7],"tokens":["<s>"]},"n":{"id":"n","ids":[8],"tokens":["\n"]}}}})";

class LinksByCharacters : public ::testing::Test {
 protected:
  LinksByCharacters() {
    io::spill(scratch_ / "tokenizer.json", kTokenizer);
    io::spill(scratch_ / "text", "a b");
    config_.vocabulary = 9;
    config_.context = 9;
  }
  std::vector<heads::Probe> load(const std::string& lines) {
    io::spill(scratch_ / "links.jsonl", lines);
    const Reading reading = read_text(scratch_.folder(), scratch_ / "text", config_);
    return load_links(scratch_ / "links.jsonl", text::load_tokenizer(scratch_.folder()), reading, config_);
  }
  static std::string line(const std::string& text, const std::string& query, const std::string& key) {
    return R"({"text": ")" + text + R"(", "query": )" + query + R"(, "key": )" + key + R"(, "relation": "x"})" + "\n";
  }

  io::Scratch scratch_;
  model::Config config_ = model::make_config(model::Kind::gpt, 1, 8, 2);
};

// <s> é a b cd a: characters, not bytes, and words of two tokens.
TEST_F(LinksByCharacters, AreBetweenAllTokensOfTheirWords) {
  const auto probes = load(line("éab cd a", "[4, 6]", "[1, 3]") + line("éab cd a", "[1, 3]", "[0, 1]") +
                           line("ab a", "[3, 4]", "[0, 2]"));
  ASSERT_EQ(probes.size(), 1u);
  const heads::Probe& probe = probes[0];
  EXPECT_EQ(probe.tokens.shape(), (Dims{2, 6}));
  const std::int32_t* tokens = probe.tokens.as<std::int32_t>();
  EXPECT_EQ(std::vector(tokens, tokens + 6), (std::vector<std::int32_t>{7, 5, 0, 1, 6, 0}));
  EXPECT_EQ(probe.lengths.as<std::int32_t>()[1], 4);
  EXPECT_FALSE(probe.special.present()) << "<s> is the first token";
  ASSERT_EQ(probe.relations.size(), 6u);
  const auto is = [&](std::size_t n, std::int64_t sequence, std::int64_t query, std::int64_t key, std::int64_t keys,
                      const std::string& name) {
    const heads::Relation& relation = probe.relations[n];
    EXPECT_EQ(relation.sequence, sequence) << n;
    EXPECT_EQ(relation.query, query) << n;
    EXPECT_EQ(relation.key, key) << n;
    EXPECT_EQ(relation.keys, keys) << n;
    EXPECT_EQ(relation.name, name) << n;
  };
  is(0, 0, 3, 2, 2, "predicts x");
  is(1, 0, 4, 2, 2, "x");
  is(2, 0, 1, 1, 1, "predicts x");  // the row before its first token
  is(3, 0, 3, 1, 1, "x");           // and that of its last
  is(5, 1, 3, 1, 2, "x");
}

TEST_F(LinksByCharacters, OfAnEncoderGoBothWays) {
  config_.kind = model::Kind::encoder;
  const auto probes = load(line("ab cd", "[0, 2]", "[3, 5]"));
  EXPECT_EQ(probes[0].tokens.shape(), (Dims{1, 5})) << "with what stands behind a text";
  ASSERT_EQ(probes[0].relations.size(), 1u);
  EXPECT_EQ(probes[0].relations[0].query, 2);
  EXPECT_EQ(probes[0].relations[0].key, 3);
}

// Long texts take few rows of a pass.
TEST_F(LinksByCharacters, LongTextsGoFewAtATime) {
  config_.context = 3000;
  const std::string text(2000, 'a'), other(2000, 'b');
  const std::string last = line(text, "[1999, 2000]", "[0, 1]");
  const auto probes = load(last + line(other, "[1, 2]", "[0, 1]") + last);
  ASSERT_EQ(probes.size(), 2u);
  EXPECT_EQ(probes[0].tokens.shape(), (Dims{2, 2001}));
  EXPECT_EQ(probes[0].relations[1].query, 2000);
}

TEST_F(LinksByCharacters, WhatIsWrongIsSaidWithItsLine) {
  Said said(scratch_.folder());
  const auto refused = [&](const std::string& lines) { said(lines, [&] { load(lines); }); };
  const std::string good = line("ab cd", "[3, 5]", "[0, 2]");
  refused(good + line("ab cd", "[3, 6]", "[0, 2]"));
  for (const char* query : {"[3, 5]", "[2, 5]", "[3]", "[3, 4, 5]", "[3, 3]", "[4, 3]", "[-1, 5]", "[3, 6]", "3",
                            "[3, \"5\"]", "[0, 2]", "[1, 2]", "[2, 3]"}) {
    refused(line("ab cd", query, "[0, 1]"));
  }
  for (const char* key :
       {"[0, 2]", "[0, 3]", "[2, 3]", "[0]", "[1, 1]", "[0, 6]", "[3, 5]", "[4, 5]", "[2, 4]", "null"}) {
    refused(line("ab cd", "[4, 5]", key));
  }
  for (const char* text : {"", "abababab", "ababababa", "abababababab"}) refused(line(text, "[3, 5]", "[0, 2]"));
  refused(R"({"tokens": "a b", "query": 1, "key": 0, "relation": "x"})");
  refused(R"({"text": "ab", "query": [1, 2], "key": [0, 1], "relation": 1})");
  refused(R"({"text": "ab", "query": [1, 2], "key": [0, 1], "relation": "x", "kye": 1})");
  config_.layers[0].window = 4;
  for (const char* text : {"aba", "abab"}) refused(line(text, "[2, 3]", "[0, 2]"));
  expect_kept(kept("links_of_texts.txt"), said.text());
}

TEST_F(Links, OfATaskAreByItsWords) {
  expect_refused(R"({"text": "the king", "query": [4, 8], "key": [0, 3], "relation": "x"})", {":1", "\"tokens\""});
}

}  // namespace
}  // namespace polyhead::exam
