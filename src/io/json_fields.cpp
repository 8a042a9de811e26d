// Fields of objects, each with the type and range that its reader expects.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/suggest.h"
#include "io/json.h"
#include "polyhead/error.h"

namespace polyhead::io {
namespace {

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return value.is_string() ? in_quotes(value.get_ref<const std::string&>()) : value.dump();
}

std::string shown(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// A field, and what is expected of it.
struct Field {
  const Json& object;
  std::string_view key, where;
  std::string expected;

  [[noreturn]] void refuse(const std::string& found) const {
    throw Error(ErrorCode::input, "json",
                std::string(where) + ": " + in_quotes(key) + ": expected " + expected + ", found " + found);
  }

  const Json& value() const {
    if (!object.is_object()) {
      throw Error(ErrorCode::input, "json",
                  std::string(where) + ": expected an object with " + in_quotes(key) + ", found " + shown(object));
    }
    const auto found = object.find(std::string(key));
    if (found == object.end()) refuse("no such key");
    return *found;
  }

  std::int64_t integer(const Json& value, std::int64_t least, std::int64_t most) const {
    const bool fits = value.is_number_unsigned() ? std::in_range<std::int64_t>(value.get<std::uint64_t>())
                                                 : value.is_number_integer();
    if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) refuse(shown(value));
    return value.get<std::int64_t>();
  }
};

std::string range(std::int64_t least, std::int64_t most) {
  return "from " + std::to_string(least) + " to " + std::to_string(most);
}

}  // namespace

std::int64_t read_integer(const Json& object, std::string_view key, std::string_view where, std::int64_t least,
                          std::int64_t most) {
  const Field field{object, key, where, "a whole number " + range(least, most)};
  return field.integer(field.value(), least, most);
}

std::vector<std::int64_t> read_integers(const Json& object, std::string_view key, std::string_view where,
                                        std::int64_t least, std::int64_t most) {
  const Field field{object, key, where, "a list of whole numbers " + range(least, most)};
  const Json& list = field.value();
  if (!list.is_array()) field.refuse(shown(list));
  std::vector<std::int64_t> numbers;
  for (const Json& item : list) numbers.push_back(field.integer(item, least, most));
  return numbers;
}

double read_number(const Json& object, std::string_view key, std::string_view where, double least, double most) {
  const Field field{object, key, where, "a number from " + shown(least) + " to " + shown(most)};
  const Json& value = field.value();
  if (!value.is_number()) field.refuse(shown(value));
  const double number = value.get<double>();
  if (!(number >= least && number <= most)) field.refuse(shown(value));  // a NaN from a GGUF is out of any range
  return number;
}

bool read_flag(const Json& object, std::string_view key, std::string_view where) {
  const Field field{object, key, where, "true or false"};
  const Json& value = field.value();
  if (!value.is_boolean()) field.refuse(shown(value));
  return value.get<bool>();
}

std::string read_text(const Json& object, std::string_view key, std::string_view where) {
  const Field field{object, key, where, "a string"};
  const Json& value = field.value();
  if (!value.is_string()) field.refuse(shown(value));
  return value.get<std::string>();
}

void expect_known_keys(const Json& object, const std::vector<std::string>& known, std::string_view where) {
  if (!object.is_object()) {
    throw Error(ErrorCode::input, "json", std::string(where) + ": expected an object, found " + shown(object));
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw Error(ErrorCode::input, "json",
                std::string(where) + ": unknown key " + in_quotes(key) + did_you_mean(key, known));
  }
}

}  // namespace polyhead::io
