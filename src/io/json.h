// JSON from untrusted files: a strict parser, and fields read with their type and range.
// Errors have the code `input` and begin with `where`, the name of the file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace polyhead::io {

// Objects keep the order of the file. Finding a key in one is linear: go through large objects from front to back.
using Json = nlohmann::ordered_json;

// One value and nothing after it. Also refuses, with line and column, what many parsers let pass: duplicate keys,
// integers beyond 64 bits, more than 64 levels, invalid UTF-8, a NUL.
Json parse_json(std::string_view text, std::string_view where);

// The field `key` of an object. It is an error if the field is missing, of another type or out of [least, most].
std::int64_t read_integer(const Json& object, std::string_view key, std::string_view where, std::int64_t least,
                          std::int64_t most);
std::vector<std::int64_t> read_integers(const Json& object, std::string_view key, std::string_view where,
                                        std::int64_t least, std::int64_t most);
double read_number(const Json& object, std::string_view key, std::string_view where, double least, double most);
bool read_flag(const Json& object, std::string_view key, std::string_view where);
std::string read_text(const Json& object, std::string_view key, std::string_view where);

// Refuses an object with a key that is not among `known`, and says which one may have been meant.
void expect_known_keys(const Json& object, const std::vector<std::string>& known, std::string_view where);

// Text from a file, fit for a message: in quotes, of moderate length, plain ASCII without control characters.
std::string in_quotes(std::string_view text);

}  // namespace polyhead::io
