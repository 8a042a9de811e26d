#include <algorithm>

#include "study/figures.h"
#include "train/task.h"

namespace polyhead::study {
namespace {

using report::Chapter;
using report::Example;

// A sequence that no model was trained on; the tokens that count are those the model has to predict.
Example example(const std::string& task_name, const std::string& asks) {
  constexpr std::size_t kMost = 48;  // tokens
  const std::unique_ptr<train::Task> task = train::make_task({.name = task_name});
  const train::Sequence sequence = task->sequence(train::Split::validation, 1, 0);
  Example made{task_name, asks, {}, {}};
  const bool classes = task->classes() > 0;
  // The last token is only predicted, never read.
  std::vector<std::int32_t> text = sequence.tokens;
  if (!classes && sequence.targets.back() >= 0) text.push_back(sequence.targets.back());
  for (std::size_t n = 0; n < std::min(kMost, text.size()); ++n) {
    made.tokens.push_back({task->token_text(text[n]), !classes && n > 0 && sequence.targets[n - 1] >= 0});
  }
  if (text.size() > kMost) made.tokens.push_back({"…", false});
  if (classes) made.answer = "class " + std::to_string(sequence.targets[0]);
  return made;
}

}  // namespace

// What is clearest, then the questions in the order in which one asks them.
std::vector<Chapter> chapters() {
  return {
      {"What stands out?",
       {example("repeat",
                "A random segment of 8 to 32 symbols, over and over. From its second time on, the model has to say "
                "what follows: what followed last time.")},
       {"formation", "knock-outs", "pruning"}},
      {"Do more heads help?",
       {example("copy", "A random string, a separator, and the same string again, which the model has to say."),
        example("classify",
                "The value right after A, the one right before B and the one two after C, each low or high: the model "
                "has to say which of the eight classes that makes. Other values stand where no marker asks for them.")},
       {"final-accuracy", "accuracy-classify", "loss-classify", "loss-copy", "comparison"}},
      {"Do many heads look more narrowly than few?", {}, {"entropy-classify", "entropy-copy"}},
      {"How do heads learn to copy?", {}, {"evolution", "heads-repeat", "controls"}},
      {"What does each head do?",
       {example("grammar",
                "Sentences of a small grammar: the verb agrees with its subject, which may stand far away, and a "
                "pronoun with what it stands for. The model has to say both.")},
       {"heads-grammar", "importance", "damage", "relations"}},
      {"Which heads can go?", {}, {"orders", "saving"}},
      {"What do the survivors see?", {}, {"heads"}}};
}

}  // namespace polyhead::study
