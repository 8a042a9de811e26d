// Every task's words, and sequences of both splits with what counts in them and their links, beside the file that holds
// them: a seed stands for the same data in every version.
#include "support/kept.h"

#include <gtest/gtest.h>

#include "train/samples.h"

namespace polyhead::train {
namespace kept {

std::string text_of(const Task& task, const Sequence& sequence) {
  std::string text;
  for (std::size_t n = 0; n < sequence.tokens.size(); ++n) {
    text += " " + task.token_text(sequence.tokens[n]);
    if (task.classes() == 0 && sequence.targets[n] >= 0) text += "[" + task.token_text(sequence.targets[n]) + "]";
  }
  if (task.classes() > 0) text += " -> " + std::to_string(sequence.targets[0]);
  for (const Link& link : sequence.links) {
    text += "; " + link.relation + " " + std::to_string(link.query) + "-" + std::to_string(link.key);
  }
  return text + "\n";
}

TEST(KeptTasks, AreTheSameInEveryVersion) {
  std::string text;
  for (const TaskSummary& about : task_list()) {
    const std::unique_ptr<Task> task = task_called(about.name);
    text += about.name + ": " + task->summary() + "\n  context " + std::to_string(task->context()) + ", classes " +
            std::to_string(task->classes()) + (task->shape().padded ? ", padded" : "") + ", best " +
            (task->best_score() ? std::to_string(*task->best_score()) : "unknown") + "\n  words";
    for (std::int32_t token = 0; token < task->vocabulary(); ++token) {
      const std::string word = task->token_text(token);
      text += " " + (about.name == "text" ? std::to_string(word.size()) : word);
    }
    text += "\n  special";
    for (const std::int32_t token : task->special_tokens()) text += " " + std::to_string(token);
    text += "\n";
    for (const Split split : {Split::train, Split::validation}) {
      for (const std::int64_t b : {0, 1}) text += " " + text_of(*task, task->sequence(split, 3, b));
    }
  }
  expect_kept(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/train/tasks.txt", text);
}

}  // namespace kept
}  // namespace polyhead::train
