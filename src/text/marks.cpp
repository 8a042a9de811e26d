#include "text/marks.h"

#include <algorithm>
#include <array>
#include <set>

namespace polyhead::text {
namespace {

// Marks, with or without blanks around them.
bool is_mark(std::string_view text) {
  constexpr std::array<std::string_view, 9> kMarks = {".", ",", ";", ":", "!", "?", "\n", "\n\n", "..."};
  const std::size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return false;
  const std::string_view mark = text.substr(first, text.find_last_not_of(' ') - first + 1);
  return std::find(kMarks.begin(), kMarks.end(), mark) != kMarks.end();
}

}  // namespace

std::vector<Id> marks_of(const Tokenizer& tokenizer) {
  std::vector<Id> marks;
  for (Id id = 0; id < tokenizer.size(); ++id) {
    if (is_mark(tokenizer.decode(std::array{id}))) marks.push_back(id);
  }
  return marks;
}

std::vector<Id> special_of(const Tokenizer& tokenizer) {
  std::set<Id> special(tokenizer.beginning().begin(), tokenizer.beginning().end());
  special.insert(tokenizer.ending().begin(), tokenizer.ending().end());
  for (const AddedToken& token : tokenizer.added()) {
    if (token.special) special.insert(token.id);
  }
  return {special.begin(), special.end()};
}

}  // namespace polyhead::text
