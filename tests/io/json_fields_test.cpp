// Fields of a configuration: their types, their ranges, and keys that nobody knows.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/scratch.h"

namespace polyhead::io {
namespace {

const Json kConfig = parse_json(
    R"({"heads": 8, "eps": 1e-5, "one": 1, "tied": true, "kind": "gpt2", "sizes": [2, 3], "none": null, "large":
       18446744073709551615, "real": 8.0, "nested": {}, "odd": [1, "2"]})",
    "config.json");

TEST(Fields, AreRead) {
  EXPECT_EQ(read_integer(kConfig, "heads", "config.json", 1, 8), 8);
  EXPECT_EQ(read_number(kConfig, "eps", "config.json", 0, 1), 1e-5);
  EXPECT_EQ(read_number(kConfig, "one", "config.json", 0, 1), 1.0);  // a whole number is a number
  EXPECT_TRUE(read_flag(kConfig, "tied", "config.json"));
  EXPECT_EQ(read_text(kConfig, "kind", "config.json"), "gpt2");
  EXPECT_EQ(read_integers(kConfig, "sizes", "config.json", 0, 9), (std::vector<std::int64_t>{2, 3}));
}

TEST(Fields, SayWhatWasExpectedAndFound) {
  const auto integer = [](const char* key, std::int64_t most = 1024) {
    return [key, most] { return read_integer(kConfig, key, "config.json", 1, most); };
  };
  expect_error(ErrorCode::input, {"config.json: \"layers\": expected a whole number from 1 to 1024, found no such key"},
               integer("layers"));
  expect_error(ErrorCode::input, {"from 1 to 7, found 8"}, integer("heads", 7));
  expect_error(ErrorCode::input, {"found \"gpt2\""}, integer("kind"));
  expect_error(ErrorCode::input, {"found 8.0"}, integer("real"));
  expect_error(ErrorCode::input, {"found true"}, integer("tied"));
  expect_error(ErrorCode::input, {"found null"}, integer("none"));
  expect_error(ErrorCode::input, {"found an object"}, integer("nested"));
  expect_error(ErrorCode::input, {"found 18446744073709551615"},
               integer("large", std::numeric_limits<std::int64_t>::max()));
  expect_error(ErrorCode::input, {"expected a number from 0.5 to 2, found 1e-05"},
               [] { return read_number(kConfig, "eps", "config.json", 0.5, 2); });
  expect_error(ErrorCode::input, {"expected a number", "found \"gpt2\""},
               [] { return read_number(kConfig, "kind", "config.json", 0, 1); });
  expect_error(ErrorCode::input, {"true or false, found 1"}, [] { return read_flag(kConfig, "one", "config.json"); });
  expect_error(ErrorCode::input, {"a string", "found 8"}, [] { return read_text(kConfig, "heads", "config.json"); });
  expect_error(ErrorCode::input, {"list of whole numbers", "found 8"},
               [] { return read_integers(kConfig, "heads", "config.json", 0, 9); });
  expect_error(ErrorCode::input, {"from 0 to 2", "found 3"},
               [] { return read_integers(kConfig, "sizes", "config.json", 0, 2); });
  expect_error(ErrorCode::input, {"found \"2\""}, [] { return read_integers(kConfig, "odd", "config.json", 0, 9); });
  expect_error(ErrorCode::input, {"config.json: expected an object", "found a list"},
               [] { return read_flag(Json::array(), "tied", "config.json"); });
}

TEST(Fields, UnknownKeys) {
  const Json config = parse_json(R"({"layers": 1, "haeds": 8})", "config.json");
  EXPECT_NO_THROW(expect_known_keys(config, {"haeds", "layers", "width"}, "config.json"));
  expect_error(ErrorCode::input, {"config.json: unknown key \"haeds\"; did you mean 'heads'?"}, [&] {
    expect_known_keys(config, {"heads", "layers"}, "config.json");
  });
  expect_error(ErrorCode::input, {"expected an object, found 3"},
               [] { expect_known_keys(Json(3), {}, "config.json"); });
}

}  // namespace
}  // namespace polyhead::io
