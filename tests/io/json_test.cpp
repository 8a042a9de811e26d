// The strict parser: what it takes, what it refuses, and where it says the fault is.
#include "io/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "io/scratch.h"

namespace polyhead::io {
namespace {

void expect_json_refused(std::string_view text, const std::vector<std::string>& words) {
  SCOPED_TRACE(in_quotes(text));
  expect_error(ErrorCode::input, words, [&] { return parse_json(text, "some.json"); });
}

TEST(ParseJson, TakesWhatIsJson) {
  const Json json = parse_json(" {\"b\": [1, -2, 2.5, true, null, \"\\u00fc\"], \"a\": {}}\n", "some.json");
  EXPECT_EQ(json.dump(), R"({"b":[1,-2,2.5,true,null,"ü"],"a":{}})");  // in the order of the file
  EXPECT_EQ(parse_json("18446744073709551615", "x").get<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_json("-9223372036854775808", "x").get<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_json("\"\\ud83d\\ude00\"", "x").get<std::string>(), "\xf0\x9f\x98\x80");
  EXPECT_EQ(parse_json(std::string(64, '[') + std::string(64, ']'), "x").size(), 1u);
}

TEST(ParseJson, RefusesWhatIsNot) {
  for (const char* text :
       {"",   " ",  "{",   "[1,]",     "{\"a\":1,}", "{a:1}",   "{'a':1}",     "[1 2]",   "nul",   "01",     "+1",
        ".5", "1.", "NaN", "Infinity", "\"a\nb\"",   "\"\\x\"", "\"\\ud800\"", "/* */ 1", "1e999", "{\"a\"}"}) {
    expect_json_refused(text, {"[json]", "some.json: line 1, column "});
  }
}

TEST(ParseJson, RefusesWhatParsersLetPass) {
  expect_json_refused(R"({"a":1,"b":{"a":2},"a":3})", {"column 22: duplicate key \"a\""});
  expect_json_refused(R"([{"a":{"x":1,"x":1}}])", {"duplicate key \"x\""});
  expect_json_refused("[18446744073709551616]", {"64 bits"});
  expect_json_refused("-9223372036854775809", {"64 bits"});
  expect_json_refused(std::string(65, '['), {"column 65: more than 64 levels"});
  expect_json_refused(std::string(100'000, '['), {"more than 64 levels"});
  expect_json_refused("{\"a\":\"\xff\"}", {"UTF-8"});
  expect_json_refused("\"\xc0\xaf\"", {"UTF-8"});      // an overlong slash
  expect_json_refused("\"\xed\xa0\x80\"", {"UTF-8"});  // half a surrogate pair
  expect_json_refused("{} x", {"column 4", "syntax"});
  expect_json_refused("{}{}", {"end of input"});
  expect_json_refused(std::string_view("{}\0{", 4), {"column 3: a NUL"});
  expect_json_refused(std::string_view("\0", 1), {"NUL"});
}

TEST(ParseJson, SaysWhere) {
  expect_json_refused("{\n  \"a\": 1,\n  \"a\": 2\n}", {"some.json: line 3, column 5: duplicate"});
  expect_json_refused("[\n1,\n99999999999999999999\n]", {"line 3,"});
  expect_json_refused("[\n1,\n\n  x]", {"line 4, column 3: "});
}

// Nothing of a hostile file reaches the terminal as it is, nor all of a long one.
TEST(ParseJson, MessagesArePlainAndShort) {
  const auto message = [](const std::string& text) {
    try {
      parse_json(text, "some.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string escape = "{\"\\u001b[2J\":1,\"\\u001b[2J\":2}";
  EXPECT_NE(message(escape).find("\\u001b"), std::string::npos);
  EXPECT_LT(message("\"" + std::string(1'000'000, 'a')).size(), 200u);
  EXPECT_LT(message("{\"" + std::string(1'000'000, 'a') + "\" 1").size(), 200u);
  for (const char letter : message(escape) + message("\"\x1b\xff")) EXPECT_TRUE(letter >= 32 && letter < 127);
  EXPECT_LT(in_quotes(std::string(1000, '\x1b')).size(), 600u);
}

// The library's own builder would take minutes for so many keys.
TEST(ParseJson, ManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":" + std::to_string(i);
  EXPECT_EQ(parse_json(text + "}", "some.json").size(), 100'000u);
}

}  // namespace
}  // namespace polyhead::io
