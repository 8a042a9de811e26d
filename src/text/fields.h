// Fields of tokenizer.json that may be missing or null, and parts that name their "type".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/suggest.h"
#include "io/json.h"
#include "polyhead/error.h"
#include "text/chars.h"

namespace polyhead::text {

[[noreturn]] inline void refuse(const std::string& where, const std::string& message) {
  throw Error(ErrorCode::input, "tokenizer", where + ": " + message);
}

// Null if there is no such field.
inline const io::Json& field(const io::Json& object, const std::string& key) {
  static const io::Json null;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? null : *found;
}

inline bool flag_or(const io::Json& object, const std::string& key, const std::string& where, bool otherwise) {
  return field(object, key).is_null() ? otherwise : io::read_flag(object, key, where);
}
inline std::string text_or(const io::Json& object, const std::string& key, const std::string& where,
                           const std::string& otherwise) {
  return field(object, key).is_null() ? otherwise : io::read_text(object, key, where);
}

inline const io::Json& list_of(const io::Json& object, const std::string& key, const std::string& where) {
  const io::Json& list = field(object, key);
  if (!list.is_array()) refuse(where, io::in_quotes(key) + ": expected a list");
  return list;
}

inline std::u32string codes_of(const std::string& text) {
  std::u32string codes;
  for (const Char& c : chars_of(text)) codes += c.code;
  return codes;
}

// {"String": text} of a pattern; {"Regex": ...} is an error.
inline std::string plain_pattern(const io::Json& object, const std::string& where) {
  const io::Json& pattern = field(object, "pattern");
  if (!pattern.is_object() || !pattern.contains("String")) {
    refuse(where, "\"pattern\": expected a \"String\"; a regular expression is not read here");
  }
  const std::string text = io::read_text(pattern, "String", where);
  if (text.empty()) refuse(where, "\"pattern\": expected a text that is not empty");
  return text;
}

// The function that reads each "type" of a part.
template <class Part>
using Readers = std::map<std::string, std::function<Part(const io::Json&, const std::string& where)>>;

template <class Part>
Part read_part(const Readers<Part>& readers, const io::Json& json, const std::string& where) {
  const std::string type = io::read_text(json, "type", where);
  if (const auto found = readers.find(type); found != readers.end()) return found->second(json, where + ": " + type);
  std::vector<std::string> known;
  std::string all;
  for (const auto& [name, reader] : readers) {
    known.push_back(name);
    all += (all.empty() ? "" : ", ") + name;
  }
  refuse(where,
         io::in_quotes(type) + " is not among those that polyhead knows (" + all + ")" + did_you_mean(type, known));
}

}  // namespace polyhead::text
