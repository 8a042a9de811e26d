// A tokenizer of bytes and of some whole words with a blank before them, " Mary".
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace polyhead::replicate {

inline const std::vector<std::string>& whole_words() {
  static const std::vector<std::string> words{"Mary",   "John",     "Anna",   "Peter",   "Tom",       "James",
                                              "one",    "two",      "three",  "four",    "five",      "six",
                                              "seven",  "eight",    "Monday", "Tuesday", "Wednesday", "Thursday",
                                              "Friday", "Saturday", "Sunday", "with",    "that",      "from"};
  return words;
}

// Byte-level BPE: each word's merges join it letter by letter, beginning with the blank.
inline std::string words_tokenizer() {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object(), merges = nlohmann::ordered_json::array();
  const auto add = [&](const std::string& token) {
    if (!vocabulary.contains(token)) vocabulary[token] = vocabulary.size();
  };
  const std::string blank = "\u0120", line = "\u010a";
  for (char c = '!'; c <= '~'; ++c) add(std::string(1, c));
  add(blank);
  add(line);
  std::set<std::string> made;
  for (const std::string& word : whole_words()) {
    std::string left = blank;
    for (const char c : word) {
      const std::string joined = left + c;
      if (made.insert(joined).second) merges.push_back(left + " " + c);
      add(joined);
      left = joined;
    }
  }
  return nlohmann::ordered_json{
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}}
      .dump();
}

}  // namespace polyhead::replicate
