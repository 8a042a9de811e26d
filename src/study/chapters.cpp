#include <algorithm>
#include <map>

#include "study/figures.h"
#include "study/words.h"
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

bool all_solved(const std::vector<Contender>& contenders) {
  return std::all_of(contenders.begin(), contenders.end(),
                     [](const Contender& contender) { return contender.solved() == contender.courses.size(); });
}

std::string accuracies_of(const Contender& contender) { return percent(final_accuracy(contender).mean); }

// "copy: no, all solve it; more heads need more steps"
std::string help_with(const TaskStudy& task) {
  const std::vector<Contender>& all = task.contenders;
  if (all_solved(all)) {
    const Trend speed = trend(all, [](const Course& course) { return static_cast<double>(*course.steps_to(kSolved)); });
    return task.task + ": not in what is learnt, since every number solves it; " +
           (speed.rises()   ? "more heads need more steps"
            : speed.falls() ? "more heads need fewer steps"
                            : "nor in how soon");
  }
  const Trend accuracy = trend(all, [](const Course& course) { return course.accuracy(); });
  return task.task + ": " +
         (accuracy.rises()   ? "yes"
          : accuracy.falls() ? "no, they harm"
                             : "no trend") +
         ", mean accuracy " + accuracies_of(all.front()) + " with " + heads_text(all.front().heads) + ", " +
         accuracies_of(all.back()) + " with " + std::to_string(all.back().heads);
}

std::string more_heads_help(const Results& results) {
  std::string text;
  for (const TaskStudy& task : results.tasks) text += (text.empty() ? "" : "; ") + help_with(task);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

// In which tasks entropy rises with the number of heads at equal loss, in which it falls, and in which neither shows.
std::string many_look_narrowly(const Results& results) {
  std::vector<std::string> broad, narrow, neither;
  for (const TaskStudy& task : results.tasks) {
    const Common common = common_of(task.contenders);
    const Trend found =
        trend(task.contenders, [&](const Course& course) { return entropy_at_loss(course, common.loss); });
    (found.rises() ? broad : found.falls() ? narrow : neither).push_back(task.task);
  }
  std::string text = "At equal loss";
  if (!narrow.empty()) text += ", yes on " + listed(narrow);
  if (!broad.empty()) text += ", no on " + listed(broad) + ": more broadly";
  if (!neither.empty()) text += ", no difference shows on " + listed(neither);
  return text + ".";
}

std::string heads_learn_to_copy(const Formations& formations) {
  const auto with = [](const std::vector<Formation>& seeds) {
    return of_seeds(static_cast<std::size_t>(std::count_if(
                        seeds.begin(), seeds.end(),
                        [](const Formation& seed) { return seed.best(heads::kInductionRole) != nullptr; })),
                    seeds.size());
  };
  return "By induction, which two layers can do: in " + with(formations.two_layers) + " with two layers and " +
         with(formations.one_layer) + " with one. Trained on segments of one length they look back a fixed distance " +
         "instead: induction in " + with(formations.fixed_length) + ".";
}

std::string heads_do(const TaskStudy& task) {
  std::map<std::string, std::size_t> counts;
  std::size_t all = 0;
  for (const Anatomy& anatomy : task.anatomies) {
    for (const heads::HeadRoles& head : anatomy.examination.roles) {
      ++all;
      ++counts[head.role() == nullptr ? "without a known role" : head.role()->role];
    }
  }
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [role, count] : sorted) parts.push_back(std::to_string(count) + " " + role);
  return "Of " + std::to_string(all) + " heads in " + counted(task.anatomies.size(), "model") + " of the " + task.task +
         ": " + listed(parts) + ".";
}

// By what each costs alone, with 8 and 16 heads together, and how far that is ahead of chance.
std::string heads_can_go(const Results& results) {
  std::string text = "At one point of accuracy, ";
  for (const TaskStudy& task : results.tasks) {
    std::vector<double> ranked, ahead;
    for (const Contender& contender : task.contenders) {
      if (contender.heads < kDissected) continue;
      for (const Removal& one : contender.removals) {
        const auto all = static_cast<double>(contender.all_heads());
        ranked.push_back(static_cast<double>(one.ranked.within_budget) / all);
        ahead.push_back(ranked.back() - one.mean_random() / all);
      }
    }
    text += (&task == results.tasks.data() ? "" : ", ") + percent(spread(ranked).mean) + " on " + task.task +
            (heads::estimate(ahead).low > 0 ? "" : " (no more than at random)");
  }
  return text + ": means over models with 8 and 16 heads.";
}

std::string survivors_see(const Results& results) {
  std::size_t stay = 0, named = 0, go = 0, named_that_go = 0;
  for (const TaskStudy& task : results.tasks) {
    for (std::size_t n = 0; n < task.anatomies.size(); ++n) {
      const std::vector<HeadId> gone = task.dissected().removals[n].ranked.removed();
      for (const heads::HeadRoles& head : task.anatomies[n].examination.roles) {
        const bool has_role = head.role() != nullptr && head.role()->role != heads::kAveragingRole;
        const bool stays = std::find(gone.begin(), gone.end(), head.id) == gone.end();
        ++(stays ? stay : go);
        if (has_role) ++(stays ? named : named_that_go);
      }
    }
  }
  return "A role other than averaging have " + std::to_string(named) + " of " + std::to_string(stay) +
         " heads that stay and " + std::to_string(named_that_go) + " of " + std::to_string(go) + " that go.";
}

}  // namespace

// What is clearest, then the questions in the order of the exercises: more heads, what each does, which can go, what is
// left.
std::vector<Chapter> chapters(const Results& results) {
  const TaskStudy& last = results.tasks.back();
  std::vector<std::string> narrow{"entropy-loss", "entropy-steps"}, survivors;
  for (const TaskStudy& task : results.tasks) {
    narrow.push_back("entropy-" + task.task);
    survivors.push_back("survivors-" + task.task);
  }
  survivors.push_back("heads");
  return {
      {.question = "What stands out?",
       .examples = {example(
                        "repeat",
                        "A random segment of 8 to 32 symbols, over and over. From its second time on, the model has "
                        "to say what follows: what followed last time."),
                    example("grammar",
                            "Sentences of a small grammar: the verb agrees with its subject, which may stand far away, "
                            "and a pronoun with what it stands for. The model has to say both.")},
       .answers = {"formation", "knock-outs", "accuracy-grammar", "removal"}},
      {.question = "Do more heads help?",
       .examples = {example("copy",
                            "A random string, a separator, and the same string again, which the model has to say."),
                    example(
                        "classify",
                        "The value right after A, the one right before B and the one two after C, each low or high: "
                        "the model has to say which of the eight classes that makes. Other values stand where no "
                        "marker asks for them.")},
       .answers = {"accuracy-copy", "accuracy-classify", "comparison"},
       .verdict = more_heads_help(results),
       .caveat = "One layer and one width: the more heads, the narrower each of them. Where all solve a task, accuracy "
                 "cannot tell them apart. Trends count as such from p = 0.01 on, since a dozen of them are looked at."},
      {.question = "Do many heads look more narrowly than few?",
       .examples = {},
       .answers = narrow,
       .verdict = many_look_narrowly(results),
       .caveat =
           "Runs that stop at 99 % stop at different steps, so entropies at the end would compare models that have "
           "learnt for longer with others. At equal steps they have learnt differently much, at equal loss for "
           "differently long."},
      {.question = "How do heads learn to copy?",
       .examples = {},
       .answers = {"evolution", "heads-repeat", "controls"},
       .verdict = heads_learn_to_copy(results.formations),
       .caveat = "Attention alone, two heads in a layer. A head counts from a score on, and some sit at it."},
      {.question = "What does each head do?",
       .examples = {},
       .answers = {"heads-" + last.task, "damage", "relations"},
       .verdict = heads_do(last),
       .caveat = "A role says where a head looks, which is not all that it does: read it beside the damage."},
      {.question = "Which heads can go?",
       .examples = {},
       .answers = {"alone", "pruning", "removals"},
       .verdict = heads_can_go(results),
       .caveat =
           "The same models as in the comparison, on sequences that none of them was trained on: some rank, others "
           "stop, a third part reports. One layer has no other that could take over."},
      {.question = "What do the survivors see?",
       .examples = {},
       .answers = survivors,
       .verdict = survivors_see(results),
       .caveat = "Roles and maps are those of the whole model, before the others went."}};
}

}  // namespace polyhead::study
