// For tests/parity: a tokenizer on lines of JSON texts from stdin. usage: tokenize_lines TOKENIZER
// Prints a line for each: the tokens with and without special ones around, as [id, first_char, last_char, begin, end],
// and what the former decode to, without and with special tokens.
#include <iostream>

#include "text/tokenizer.h"

namespace {

using polyhead::io::Json;

Json listed(const std::vector<polyhead::text::Token>& tokens) {
  Json list = Json::array();
  for (const auto& token : tokens) {
    list.push_back({token.id, token.first_char, token.last_char, token.begin, token.end});
  }
  return list;
}

}  // namespace

int main(int count, char** words) try {
  if (count != 2) throw std::runtime_error("usage: tokenize_lines TOKENIZER");
  const polyhead::text::Tokenizer tokenizer = polyhead::text::load_tokenizer(words[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = polyhead::io::parse_json(line, "stdin").get<std::string>();
    const auto tokens = tokenizer.encode(text);
    std::vector<polyhead::text::Id> ids;
    for (const auto& token : tokens) ids.push_back(token.id);
    Json result = {{"special", listed(tokens)},
                   {"plain", listed(tokenizer.encode(text, false))},
                   {"decoded", tokenizer.decode(ids)},
                   {"decoded_special", tokenizer.decode(ids, true)}};
    std::cout << result.dump() << "\n";
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
