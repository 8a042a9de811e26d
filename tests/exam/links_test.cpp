#include "exam/links.h"

#include <gtest/gtest.h>

#include "io/scratch.h"

namespace polyhead::exam {
namespace {

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
  EXPECT_TRUE(probe.marked.as<bool>()[0]) << "BOS";
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

TEST_F(Links, WhatIsWrongIsSaidWithItsLine) {
  expect_refused("", {"found none"});
  expect_refused(std::string(kLine) + "\nnonsense", {"links.jsonl:2"});
  expect_refused(R"({"tokens": "BOS the kng is", "query": 3, "key": 2, "relation": "x"})", {":1", "kng", "king"});
  expect_refused(R"({"tokens": "BOS the king is", "query": 4, "key": 2, "relation": "x"})", {":1", "query"});
  expect_refused(R"({"tokens": "BOS the king is", "query": 2, "key": 3, "relation": "x"})", {":1", "key"});
  expect_refused(R"({"tokens": "BOS the king is", "query": 2, "key": 2, "relation": "x"})", {":1", "key"});
  expect_refused(R"({"tokens": "BOS the king is", "query": 0, "key": 0, "relation": "x"})", {":1", "query"});
  expect_refused(R"({"tokens": "BOS the king is", "query": 2, "key": 1})", {":1", "relation"});
  expect_refused(R"({"tokens": "", "query": 1, "key": 0, "relation": "x"})", {":1", "tokens"});
  expect_refused(R"({"tokens": "BOS the", "query": 1, "key": 0, "relation": "x", "kye": 1})", {":1", "kye"});
  io::expect_error(ErrorCode::io, {"none.jsonl"}, [&] { load_links(scratch_ / "none.jsonl", *task_); });
}

}  // namespace
}  // namespace polyhead::exam
