#include <algorithm>

#include "study/figures.h"

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
  for (const auto* contenders : {&results.copy, &results.classify}) {
    for (const Contender& contender : *contenders) {
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

Table every_head(const Anatomy& anatomy) {
  const std::vector<HeadId> gone = anatomy.iterative.removed();
  Table table{"heads",
              "Every head of the grammar model",
              "First seed. The role says where a head looks; the last columns say what it does: what it adds to the "
              "logit of the right word, and how much the loss rises without it.",
              {"head", "role", "score", "entropy (nats)", "importance", "logit of the right word",
               "rise of the loss without it", "kept"},
              {}};
  for (std::size_t n = 0; n < anatomy.examination.roles.size(); ++n) {
    const heads::RoleScore* role = anatomy.examination.roles[n].role();
    const HeadImportance& importance = anatomy.examination.importance[n];
    const bool stays = std::find(gone.begin(), gone.end(), importance.id) == gone.end();
    table.rows.push_back({to_string(importance.id), std::string(role == nullptr ? "none known" : role->role),
                          role == nullptr ? Cell{} : Cell{role->score},
                          anatomy.examination.survey.heads[n].mean(Statistic::entropy, Statistic::rows),
                          importance.normalised, importance.logit.mean, importance.zero.mean,
                          std::string(stays ? "yes" : "pruned")});
  }
  return table;
}

Table orders(const std::vector<Anatomy>& anatomies) {
  Table table{"orders",
              "Which order finds the heads that can go",
              "Heads that can be removed for at most one point of accuracy, and from how many on a single ranking does "
              "worse than the average random order.",
              {"seed", "heads", "ranked again each time", "ranked once", "random, fewest", "random, most",
               "once worse than random", "gradient and damage"},
              {}};
  for (std::size_t n = 0; n < anatomies.size(); ++n) {
    const Anatomy& one = anatomies[n];
    std::vector<double> random;
    for (const PruneCurve& curve : one.random) random.push_back(static_cast<double>(curve.within_budget));
    const Spread chance = spread(random);
    const std::optional<std::size_t> below = one.one_shot_below_random();
    table.rows.push_back(
        {static_cast<std::int64_t>(n + 1), static_cast<std::int64_t>(one.examination.importance.size()),
         static_cast<std::int64_t>(one.iterative.within_budget), static_cast<std::int64_t>(one.one_shot.within_budget),
         static_cast<std::int64_t>(chance.low), static_cast<std::int64_t>(chance.high),
         below ? Cell{"from " + std::to_string(*below)} : Cell{std::string("no")}, one.examination.gradient_and_zero});
  }
  return table;
}

Table saving(const std::vector<Anatomy>& anatomies) {
  Table table{"saving",
              "The pruned models",
              "Heads are removed from the weights. 'polyhead prune' measures what that saves in time.",
              {"seed", "model", "heads", "parameters", "bytes", "accuracy"},
              {}};
  for (std::size_t n = 0; n < anatomies.size(); ++n) {
    const auto row = [&](const char* name, const exam::Facts& side) {
      table.rows.push_back({static_cast<std::int64_t>(n + 1), std::string(name), side.heads, side.parameters,
                            side.bytes, side.accuracy});
    };
    row("whole", anatomies[n].saving.before);
    row("pruned", anatomies[n].saving.after);
  }
  return table;
}

}  // namespace

std::vector<Table> tables(const Results& results) {
  return {comparison(results),          knock_outs(results.formations),   controls(results.formations),
          relations(results.anatomies), every_head(results.anatomies[0]), orders(results.anatomies),
          saving(results.anatomies)};
}

}  // namespace polyhead::study
