// The tokens of a task by their words.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/task.h"

namespace polyhead::train {

class Words {
 public:
  explicit Words(const Task& task);

  // The tokens of words separated by white space. For a word that the task does not have, `refuse` is called with a
  // message; it must throw.
  std::vector<std::int32_t> tokens_of(const std::string& text,
                                      const std::function<void(const std::string&)>& refuse) const;
  const std::vector<std::string>& all() const noexcept { return words_; }

 private:
  std::string task_;
  std::vector<std::string> words_;  // by token
};

// tokenizer.json beside a trained model: the words of its task, a space between them, or for task "text" its bytes. So
// every program that reads such files takes texts for the model.
void save_tokenizer(const TaskOptions& task, const std::filesystem::path& folder);

}  // namespace polyhead::train
