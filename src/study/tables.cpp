#include <algorithm>

#include "study/figures.h"

namespace polyhead::study {
namespace {

using report::Cell;
using report::Table;

Cell steps_cell(const StepsToSolve& found, std::size_t seeds) {
  if (found.solved == 0) return std::string("never");
  std::string text = std::to_string(static_cast<std::int64_t>(found.steps.low));
  if (found.steps.high > found.steps.low) text += " to " + std::to_string(static_cast<std::int64_t>(found.steps.high));
  if (found.solved < seeds) text += " (" + std::to_string(found.solved) + " of " + std::to_string(seeds) + " seeds)";
  return text;
}

Table comparison(const Results& results) {
  Table table{"comparison",
              "Heads at width 256",
              "Accuracy on unseen sequences, lowest and highest seed; steps until it "
              "stays at 95 % or more.",
              {"task", "heads", "head width", "accuracy, lowest", "accuracy, highest", "steps to 95 %"},
              {}};
  for (const auto* contenders : {&results.copy, &results.classify}) {
    for (const Contender& contender : *contenders) {
      const Spread accuracy = final_accuracy(contender);
      table.rows.push_back({contender.task, contender.heads, contender.courses[0].plan.model.head_dim, accuracy.low,
                            accuracy.high, steps_cell(steps_to_solve(contender), contender.courses.size())});
    }
  }
  return table;
}

Table knock_outs(const Formations& formations) {
  Table table{"knock-outs",
              "Knocking out the heads that repeat",
              "Accuracy on the second and later copies, two layers.",
              {"gates shut", "accuracy"},
              {}};
  for (const KnockOut& one : formations.knock_outs) table.rows.push_back({one.what, one.accuracy});
  return table;
}

Table controls(const Formations& formations) {
  Table table{"controls",
              "A detector and its control",
              "The best induction score of any head: naive, on segments of the one length that the control was trained "
              "on; ours, on segments of different lengths.",
              {"model", "accuracy", "naive score", "our score", "induction head?"},
              {}};
  for (const Formation* one : {&formations.two_layers, &formations.one_layer, &formations.fixed_length}) {
    table.rows.push_back(
        {one->name, one->course.accuracy(), one->naive, one->ours, std::string(one->best("induction") ? "yes" : "no")});
  }
  return table;
}

Table relations(const Anatomy& anatomy) {
  Table table{"relations",
              "Links of the grammar",
              "How often the largest weight of the best head lies on the word that "
              "the next one depends on, beside the best that any fixed offset does.",
              {"relation", "best head", "accuracy", "best fixed offset"},
              {}};
  for (const auto& [name, found] : anatomy.relations) {
    table.rows.push_back({name, to_string(found.head), found.accuracy, found.offset});
  }
  return table;
}

Table every_head(const Anatomy& anatomy) {
  const std::vector<heads::HeadId> gone = anatomy.iterative.removed();
  Table table{"heads",
              "Every head of the grammar model",
              "",
              {"head", "role", "score", "entropy (nats)", "importance", "loss gained without", "stays"},
              {}};
  for (std::size_t n = 0; n < anatomy.examination.roles.size(); ++n) {
    const heads::RoleScore* role = anatomy.examination.roles[n].role();
    const heads::Importance& importance = anatomy.examination.importance[n];
    const bool stays = std::find(gone.begin(), gone.end(), importance.id) == gone.end();
    table.rows.push_back({to_string(importance.id), std::string(role == nullptr ? "none known" : role->role),
                          role == nullptr ? Cell{} : Cell{role->score},
                          anatomy.examination.survey.heads[n].mean(Statistic::entropy, Statistic::rows),
                          importance.normalised, importance.zero.mean, std::string(stays ? "yes" : "pruned")});
  }
  return table;
}

Table saving(const Anatomy& anatomy) {
  Table table{
      "saving",
      "The pruned model",
      "Heads out of the weights; median times of forward passes of one and of 16 sequences, whole and pruned in turns.",
      {"", "heads", "parameters", "bytes", "accuracy", "ms at batch 1", "ms at batch 16"},
      {}};
  const auto row = [&](const char* name, const Facts& side) {
    table.rows.push_back({std::string(name), side.heads, side.parameters, side.bytes, side.accuracy,
                          1e3 * side.seconds_of_one, 1e3 * side.seconds_of_16});
  };
  row("whole", anatomy.saving.before);
  row("pruned", anatomy.saving.after);
  return table;
}

}  // namespace

std::vector<Table> tables(const Results& results) {
  return {comparison(results),        knock_outs(results.formations), controls(results.formations),
          relations(results.anatomy), every_head(results.anatomy),    saving(results.anatomy)};
}

}  // namespace polyhead::study
