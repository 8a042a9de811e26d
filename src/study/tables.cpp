#include <algorithm>

#include "study/figures.h"
#include "study/words.h"

namespace polyhead::study {
namespace {

using report::Cell;
using report::Table;

std::string whole(double value) { return std::to_string(static_cast<std::int64_t>(value)); }

Table comparison(const Results& results) {
  Table table{
      "comparison",
      "One to sixteen heads at the same width",
      "Trained until the accuracy on unseen sequences stays at 99 % or the budget of steps is spent. Lowest and "
      "highest seed; steps of the seeds that solved it.",
      {"task", "width", "heads", "head width", "budget", "solved", "accuracy, lowest", "accuracy, highest",
       "steps to 99 %"},
      {}};
  for (const TaskStudy& task : results.tasks) {
    for (const Contender& contender : task.contenders) {
      const Spread accuracy = final_accuracy(contender);
      const std::optional<Spread> steps = steps_to_solve(contender);
      const model::Config& config = contender.courses[0].plan.model;
      table.rows.push_back({contender.task, config.width, contender.heads, config.head_dim, contender.budget(),
                            std::to_string(contender.solved()) + " of " + std::to_string(contender.courses.size()),
                            accuracy.low, accuracy.high,
                            steps ? whole(steps->low) + " to " + whole(steps->high) : std::string("never")});
    }
  }
  return table;
}

Table knock_outs(const Formations& formations) {
  Table table{"knock-outs",
              "Knocking out the heads that copy",
              "Accuracy on the second and later copies, two layers; blank where the model has no such head.",
              {"seed", "previous-token heads", "induction heads", "all open", "without previous-token",
               "without induction", "without both", "without all others"},
              {}};
  const auto cell = [](const std::optional<double>& value) { return value ? Cell{*value} : Cell{}; };
  for (std::size_t n = 0; n < formations.knock_outs.size(); ++n) {
    const KnockOut& one = formations.knock_outs[n];
    table.rows.push_back({static_cast<std::int64_t>(n + 1), one.previous_heads, one.induction_heads, one.nothing,
                          cell(one.previous), cell(one.induction), cell(one.both), cell(one.others)});
  }
  return table;
}

Table controls(const Formations& formations) {
  Table table{
      "controls",
      "A detector and its control",
      "The best induction score of any head. Naive: on segments of the one length that the control was trained on. "
      "Ours: on segments of different lengths.",
      {"model", "seed", "accuracy", "naive score", "our score", "induction head?"},
      {}};
  for (const auto* seeds : {&formations.two_layers, &formations.one_layer, &formations.fixed_length}) {
    for (std::size_t n = 0; n < seeds->size(); ++n) {
      const Formation& one = (*seeds)[n];
      table.rows.push_back({one.name, static_cast<std::int64_t>(n + 1), one.course.accuracy(), one.naive, one.ours,
                            std::string(one.best("induction") != nullptr ? "yes" : "no")});
    }
  }
  return table;
}

Table relations(const std::vector<Anatomy>& anatomies) {
  Table table{
      "relations",
      "Links of the grammar",
      "How often the best head's largest weight lies on the linked word, and how often the best fixed offset does.",
      {"relation", "seed", "best head", "accuracy", "best fixed offset"},
      {}};
  for (const auto& [name, first] : anatomies[0].relations) {
    for (std::size_t n = 0; n < anatomies.size(); ++n) {
      const RelationFound& found = anatomies[n].relations.at(name);
      table.rows.push_back(
          {name, static_cast<std::int64_t>(n + 1), to_string(found.head), found.accuracy, found.offset});
    }
  }
  return table;
}

Table every_head(const TaskStudy& task) {
  const Anatomy& anatomy = task.anatomies[0];
  const std::vector<HeadId> gone = task.dissected().removals[0].ranked.removed();
  Table table{"heads",
              "Every head of a model of the " + task.task,
              "First seed. The role says where a head looks; the last columns say what it does: what it adds to the "
              "logit of the right word, and how much is lost without it.",
              {"head", "role", "score", "entropy (nats)", "importance", "logit of the right word",
               "rise of the loss without it", "accuracy lost without it", "stays"},
              {}};
  for (std::size_t n = 0; n < anatomy.examination.roles.size(); ++n) {
    const heads::RoleScore* role = anatomy.examination.roles[n].role();
    const HeadImportance& importance = anatomy.examination.importance[n];
    const bool stays = std::find(gone.begin(), gone.end(), importance.id) == gone.end();
    table.rows.push_back({to_string(importance.id), std::string(role == nullptr ? "none known" : role->role),
                          role == nullptr ? Cell{} : Cell{role->score},
                          anatomy.examination.survey.heads[n].mean(Statistic::entropy, Statistic::rows),
                          importance.normalised, importance.logit.mean, importance.zero.mean, importance.accuracy_loss,
                          std::string(stays ? "yes" : "no")});
  }
  return table;
}

// Means over seeds.
Table removals(const Results& results) {
  Table table{
      "removals",
      "Heads that can go, by task and number of heads",
      "For at most one point of accuracy on the sequences that stop it; means over seeds. What the pruned models "
      "lose is judged on sequences that neither ranked nor stopped.",
      {"task", "heads", "models", "by what each costs alone", "by gradient", "random order", "accuracy of the whole",
       "lost, by cost", "lost, by gradient", "lose more than a point"},
      {}};
  for (const TaskStudy& task : results.tasks) {
    for (const Contender& contender : task.contenders) {
      const auto mean = [&](const auto& value) { return Cell{spread(values_of(contender.removals, value)).mean}; };
      const auto broken = std::count_if(contender.removals.begin(), contender.removals.end(),
                                        [](const Removal& one) { return one.ranked_loss > 0.01; });
      table.rows.push_back({task.task, contender.all_heads(), static_cast<std::int64_t>(contender.removals.size()),
                            mean([](const Removal& one) { return static_cast<double>(one.ranked.within_budget); }),
                            mean([](const Removal& one) { return static_cast<double>(one.by_gradient.within_budget); }),
                            mean([](const Removal& one) { return one.mean_random(); }),
                            mean([](const Removal& one) { return one.accuracy; }),
                            mean([](const Removal& one) { return one.ranked_loss; }),
                            mean([](const Removal& one) { return one.by_gradient_loss; }),
                            static_cast<std::int64_t>(broken)});
    }
  }
  return table;
}

}  // namespace

std::vector<Table> tables(const Results& results) {
  const TaskStudy& last = results.tasks.back();
  return {comparison(results),
          knock_outs(results.formations),
          controls(results.formations),
          relations(last.anatomies),
          every_head(last),
          removals(results)};
}

}  // namespace polyhead::study
