#include "train/words.h"

#include <algorithm>
#include <sstream>

#include "core/suggest.h"
#include "io/json.h"
#include "text/pre_tokenizer.h"
#include "text/speech.h"

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

void save_tokenizer(const TaskOptions& options, const std::filesystem::path& folder) {
  const bool bytes = options.name == "text";
  io::Json vocabulary = io::Json::object(), json = {{"version", "1.0"}, {"added_tokens", io::Json::array()}};
  if (bytes) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string letter;
      text::append_utf8(letter, text::char_of_byte(static_cast<unsigned char>(byte)));
      vocabulary[letter] = byte;
    }
    json["pre_tokenizer"] = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}, {"trim_offsets", false}};
    json["model"] = {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", io::Json::array()}};
    json["decoder"] = json["pre_tokenizer"];
  } else {
    const std::unique_ptr<Task> task = make_task(options);
    for (std::int32_t token = 0; token < task->vocabulary(); ++token) vocabulary[task->token_text(token)] = token;
    json["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
    json["model"] = {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}};
  }
  text::save_speech({{text::kTokenizerFile, json.dump(1) + "\n"}}, folder);
}

}  // namespace polyhead::train
