// Text that comes token by token is the text that comes at once, in whole characters.
#include "text/stream.h"

#include <gtest/gtest.h>

#include <random>

#include "polyhead/text.h"
#include "text/fixtures.h"

namespace polyhead::text {
namespace {

bool is_utf8(const std::string& text) { return utf8_of(chars_of(text)) == text; }

class StreamOfEveryKind : public ::testing::TestWithParam<std::string> {};

TEST_P(StreamOfEveryKind, PiecesAreTheTextInWholeCharacters) {
  const Tokenizer tokenizer = load_tokenizer(fixture(GetParam() + ".json"));
  for (const io::Json& expected : fixture_json(GetParam() + ".expected.json")) {
    const auto ids = expected.at("ids").get<std::vector<Id>>();
    for (const bool special : {false, true}) {
      Stream stream(tokenizer, {}, special);
      std::string all;
      for (const Id id : ids) {
        const std::string piece = stream.add(id);
        EXPECT_TRUE(is_utf8(piece)) << piece;
        all += piece;
      }
      EXPECT_EQ(all + stream.finish(), tokenizer.decode(ids, special));
    }
  }
}

// What is said after a prompt is what the whole text has after the prompt's: no blank is lost or added.
TEST_P(StreamOfEveryKind, GoesOnAfterAPrompt) {
  const Tokenizer tokenizer = load_tokenizer(fixture(GetParam() + ".json"));
  const std::vector<Id> ids = ids_of(tokenizer.encode("the cat and the dog were 12 years old", false));
  for (std::size_t cut = 1; cut < ids.size(); ++cut) {
    const std::vector<Id> before(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut));
    Stream stream(tokenizer, before);
    std::string after;
    for (std::size_t n = cut; n < ids.size(); ++n) after += stream.add(ids[n]);
    EXPECT_EQ(tokenizer.decode(before) + after + stream.finish(), tokenizer.decode(ids)) << cut;
  }
}

// Random tokens: parts of characters in any order.
TEST_P(StreamOfEveryKind, AnyTokensGiveWholeCharacters) {
  const Tokenizer tokenizer = load_tokenizer(fixture(GetParam() + ".json"));
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    Stream stream(tokenizer);
    std::string all;
    for (int n = 0; n < 40; ++n)
      all += stream.add(static_cast<Id>(random() % static_cast<unsigned long>(tokenizer.size())));
    EXPECT_TRUE(is_utf8(all + stream.finish()));
  }
}

INSTANTIATE_TEST_SUITE_P(Stream, StreamOfEveryKind, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param; });

TEST(Stream, ACharacterWaitsForItsTokens) {
  const Tokenizer tokenizer = load_tokenizer(fixture("gpt2.json"));
  const std::vector<Id> ids = ids_of(tokenizer.encode("a\U0001f600b", false));
  ASSERT_EQ(ids.size(), 6u);  // the smiley is four bytes
  Stream stream(tokenizer);
  std::vector<std::string> pieces;
  for (const Id id : ids) pieces.push_back(stream.add(id));
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "", "", "", "\U0001f600", "b"}));
  Stream cut(tokenizer);
  for (std::size_t n = 0; n < 3; ++n) cut.add(ids[n]);
  EXPECT_EQ(cut.finish(), tokenizer.decode({ids.data() + 1, 2}));
}

TEST(Stops, EndBeforeAStopThatComesInParts) {
  Stops stops({"END", "\n\n"});
  EXPECT_EQ(stops.add("one\n"), "one");
  EXPECT_EQ(stops.add("two E"), "\ntwo ");
  EXPECT_EQ(stops.add("N"), "");
  EXPECT_EQ(stops.add("d "), "ENd ");
  EXPECT_FALSE(stops.found());
  EXPECT_EQ(stops.add("three EN"), "three ");
  EXPECT_EQ(stops.add("D four"), "");
  EXPECT_TRUE(stops.found());
  EXPECT_EQ(stops.finish(), "");
  Stops none({"x"});
  EXPECT_EQ(none.add("ab"), "ab");
  EXPECT_EQ(none.finish(), "");
}

TEST(Text, ATokenizerOfWords) {
  io::Scratch scratch;
  io::spill(scratch / "tokenizer.json",
            R"({"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel","vocab":{"one":0,"zwei":1}}})");
  const polyhead::Tokenizer tokenizer = polyhead::Tokenizer::load(scratch.folder());
  EXPECT_EQ(tokenizer.size(), 2);
  const std::vector<Token> tokens = tokenizer.encode(" one\tzwei one ");
  EXPECT_EQ(ids_of(tokens), (std::vector<Id>{0, 1, 0}));
  EXPECT_EQ(tokens[1].begin, 5u);
  EXPECT_EQ(tokens[1].last_char, 9u);
  std::vector<Token> places;
  EXPECT_EQ(tokenizer.decode(ids_of(tokens), false, &places), "one zwei one");
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[1].begin, 3u);  // with the blank before it
  EXPECT_EQ(places[1].end, 8u);
  try {
    tokenizer.encode("one drei");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"drei\" at byte 4"), std::string::npos) << error.what();
  }
}

// Tokens that make up a character together all have its place.
TEST(Text, PlacesInADecodedText) {
  const Tokenizer tokenizer = load_tokenizer(fixture("gpt2.json"));
  io::Scratch scratch;
  io::spill(scratch / "tokenizer.json", io::slurp(fixture("gpt2.json")));
  const std::vector<Id> ids = ids_of(tokenizer.encode("a\U0001f600b", false));
  std::vector<Token> places;
  const std::string text = polyhead::Tokenizer::load(scratch.folder()).decode(ids, false, &places);
  EXPECT_EQ(text, "a\U0001f600b");
  for (std::size_t n = 1; n < 5; ++n) {
    EXPECT_EQ(places[n].id, ids[n]);
    EXPECT_EQ(places[n].begin, 1u);
    EXPECT_EQ(places[n].end, 5u);
    EXPECT_EQ(places[n].first_char, 1u);
    EXPECT_EQ(places[n].last_char, 2u);
  }
  EXPECT_EQ(places[5].begin, 5u);
}

TEST(Text, AModelWithoutATokenizerIsNamed) {
  io::Scratch scratch;
  const auto refused = [&](const std::string& words) {
    try {
      polyhead::Tokenizer::load(scratch.folder());
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::input);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused(scratch.folder() + ": this model has no tokenizer");
  io::spill(scratch / "run.json", "{}");  // of a run from before runs had one
  refused("'polyhead train --resume --out " + scratch.folder() + "' writes it");
}

}  // namespace
}  // namespace polyhead::text
