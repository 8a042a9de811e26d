#include "train/words.h"

#include <algorithm>
#include <sstream>

#include "core/suggest.h"
#include "io/json.h"

namespace polyhead::train {

Words::Words(const Task& task) : task_(task.name()) {
  for (std::int32_t token = 0; token < task.vocabulary(); ++token) words_.push_back(task.token_text(token));
}

std::vector<std::int32_t> Words::tokens_of(const std::string& text,
                                           const std::function<void(const std::string&)>& refuse) const {
  std::vector<std::int32_t> tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto found = std::find(words_.begin(), words_.end(), word);
    if (found == words_.end()) {
      refuse("the task " + task_ + " has no word " + io::in_quotes(word) + did_you_mean(word, words_));
    }
    tokens.push_back(static_cast<std::int32_t>(found - words_.begin()));
  }
  return tokens;
}

}  // namespace polyhead::train
