#include "study/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>

namespace polyhead::study {
namespace {

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}
std::string two_digits(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}
std::string number(double value) { return std::to_string(static_cast<std::int64_t>(std::llround(value))); }

// Does a value rise or fall with the number of heads? Over all runs, against shuffled ones.
struct Trend {
  double rho = 0;  // Spearman's correlation
  double p = 1;    // how often shuffled values have as large a one
};
Trend trend(const std::vector<Contender>& contenders, const std::function<double(const Course&)>& value) {
  std::vector<double> heads, values;
  for (const Contender& contender : contenders) {
    for (const Course& course : contender.courses) {
      heads.push_back(static_cast<double>(contender.heads));
      values.push_back(value(course));
    }
  }
  Trend found{heads::rank_correlation(heads, values), 1};
  constexpr int kShuffles = 4000;
  int as_large = 0;
  std::minstd_rand random(1);
  for (int n = 0; n < kShuffles; ++n) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
    as_large += std::abs(heads::rank_correlation(heads, values)) >= std::abs(found.rho) - 1e-12;
  }
  found.p = (as_large + 1.0) / (kShuffles + 1.0);
  return found;
}
constexpr double kBelief = 0.05;

std::string words(const Trend& trend) {
  char text[64];
  std::snprintf(text, sizeof text, "rank correlation %.2f, p %s %.2g", trend.rho, trend.p < 0.001 ? "<" : "=",
                std::max(trend.p, 0.001));
  return text;
}

std::string ranges(const std::vector<Contender>& contenders) {
  std::string text;
  for (const Contender& contender : contenders) {
    const Spread accuracy = final_accuracy(contender);
    text += (text.empty() ? "" : ", ") + percent(accuracy.low);
    if (accuracy.high > accuracy.low) text += " to " + percent(accuracy.high);
    text += " with " + heads_text(contender.heads);
  }
  return text;
}

std::string on_accuracy(const std::vector<Contender>& contenders) {
  const std::string task = "On the task “" + contenders[0].task + "”, after " +
                           std::to_string(contenders[0].courses[0].points.back().step) + " steps, the accuracy ";
  const Trend found = trend(contenders, [](const Course& course) { return course.accuracy(); });
  const std::string which = found.p > kBelief ? "does not depend on the number of heads beyond noise"
                            : found.rho > 0   ? "rises with the number of heads"
                                              : "falls with the number of heads";
  return task + which + " (" + words(found) + "): " + ranges(contenders) + ".";
}

// Runs that never get there count as slower than all.
std::string on_convergence(const std::vector<Contender>& contenders) {
  std::size_t runs = 0, solved = 0;
  for (const Contender& contender : contenders) {
    runs += contender.courses.size();
    solved += steps_to_solve(contender).solved;
  }
  const std::string task = "On “" + contenders[0].task + "” " + std::to_string(solved) + " of " + std::to_string(runs) +
                           " runs stay above 95 %";
  if (solved == 0) return task + ".";
  const Trend found = trend(contenders, [](const Course& course) {
    return static_cast<double>(course.steps_to(kSolved).value_or(std::numeric_limits<std::int32_t>::max()));
  });
  const std::string which = found.p > kBelief ? "how soon does not depend on the number of heads beyond noise"
                            : found.rho > 0   ? "with more heads it takes longer"
                                              : "with more heads it takes fewer steps";
  return task + "; " + which + " (" + words(found) + ").";
}

double mean_entropy(const Contender& contender) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto& seed : contender.entropies) {
    for (const double entropy : seed) sum += entropy;
    count += seed.size();
  }
  return sum / static_cast<double>(count);
}

std::string on_entropy(const std::vector<Contender>& contenders) {
  const double one = mean_entropy(contenders.front()), many = mean_entropy(contenders.back());
  const std::string change = std::abs(one - many) < 0.05 ? "hardly differ in focus"
                             : many > one                ? "look more widely"
                                                         : "are more focused";
  return "Narrower heads " + change + " on “" + contenders[0].task + "”: mean relative entropy " + two_digits(one) +
         " with " + heads_text(contenders.front().heads) + ", " + two_digits(many) + " with " +
         heads_text(contenders.back().heads) + ".";
}

// "0.1 (0.44)", the best head that holds the role.
std::string best_with_score(const Formation& formation, const std::string& role) {
  const auto best = formation.best(role);
  if (!best) return "none";
  for (const heads::HeadRoles& head : formation.roles) {
    for (const heads::RoleScore& score : head.scores) {
      if (head.id == *best && score.role == role) return to_string(*best) + " (" + two_digits(score.score) + ")";
    }
  }
  return to_string(*best);
}

void add_knock_outs(const std::vector<KnockOut>& all, std::vector<report::Finding>& to) {
  std::string text;
  for (const KnockOut& one : all) {
    text += (text.empty() ? "Accuracy of the copies with gates shut: " : "; ") + one.what + " " + percent(one.accuracy);
  }
  if (all.size() > 1) to.push_back({text + ".", "knock-outs"});
}

void add_formation(const Formations& formations, std::vector<report::Finding>& to) {
  const Formation &two = formations.two_layers, &one = formations.one_layer, &fixed = formations.fixed_length;
  const auto describe = [](const Formation& formation) {
    return percent(formation.course.accuracy()) + ", best induction head " + best_with_score(formation, "induction") +
           ", best previous-token head " + best_with_score(formation, "previous token");
  };
  to.push_back(
      {"Repeats of variable length: two layers reach " + describe(two) + "; one layer reaches " + describe(one) + ".",
       "formation"});
  const bool fooled = fixed.naive >= 0.4 && !fixed.best("induction");
  to.push_back(
      {"A model trained on segments of one length copies with " + percent(fixed.course.accuracy()) +
           " accuracy. At that length its best head has an induction score of " + two_digits(fixed.naive) +
           ", at other lengths " + two_digits(fixed.ours) + "." +
           (fooled ? " It looks back a fixed distance: a detector that measures at one length is fooled." : ""),
       "controls"});
  add_knock_outs(formations.knock_outs, to);
}

void add_pruning(const Anatomy& anatomy, std::vector<report::Finding>& to) {
  const std::size_t all = anatomy.examination.importance.size(), gone = anatomy.iterative.within_budget;
  std::vector<double> random;
  for (const heads::PruneCurve& curve : anatomy.random) random.push_back(static_cast<double>(curve.within_budget));
  const Spread chance = spread(random);
  const auto mine = static_cast<double>(gone);
  std::string text = "Of " + std::to_string(all) + " heads " + std::to_string(gone) + " (" +
                     percent(mine / static_cast<double>(all)) +
                     ") can go at a cost of at most one point of accuracy, least important first; in random order " +
                     two_digits(chance.mean) + " on average (" + number(chance.low) + " to " + number(chance.high) +
                     " in " + std::to_string(random.size()) + " orders)";
  text += mine > chance.high   ? ": more than in any of them."
          : mine > chance.mean ? ": more than on average, not than in every one of them."
                               : ": the ranking does not help here.";
  to.push_back({text, "pruning"});
  const Facts &before = anatomy.saving.before, &after = anatomy.saving.after;
  to.push_back({"The pruned model has " +
                    percent(1 - static_cast<double>(after.parameters) / static_cast<double>(before.parameters)) +
                    " fewer parameters; on sequences that had no part in pruning it gets " + percent(after.accuracy) +
                    " where the whole one gets " + percent(before.accuracy) + ", and a forward pass takes " +
                    two_digits(after.seconds_of_one / before.seconds_of_one) + " of the time at batch 1 and " +
                    two_digits(after.seconds_of_16 / before.seconds_of_16) + " at batch 16.",
                "saving"});
}

void add_anatomy(const Anatomy& anatomy, std::vector<report::Finding>& to) {
  for (const auto& [name, found] : anatomy.relations) {
    const bool above = found.accuracy >= found.offset + heads::kMargin;
    to.push_back({"The link “" + name + "” of the grammar " +
                      (above ? "has a head: " : "has no head of its own; the best is ") + to_string(found.head) +
                      " looks at the word that it leads to in " + percent(found.accuracy) +
                      " of cases, where the best fixed offset gets " + percent(found.offset) + ".",
                  "relations"});
  }
  add_pruning(anatomy, to);
  const double rho = anatomy.examination.gradient_and_zero;
  to.push_back({"Gradient and damage rank the heads " +
                    std::string(rho > 0.7   ? "alike"
                                : rho > 0.3 ? "similarly, not alike"
                                            : "differently") +
                    ": Spearman's correlation is " + two_digits(rho) + ".",
                "damage"});
}

}  // namespace

std::vector<report::Finding> findings(const Results& results) {
  std::vector<report::Finding> found{
      {on_accuracy(results.classify), "final-accuracy"}, {on_accuracy(results.copy), "final-accuracy"},
      {on_convergence(results.copy), "loss-copy"},       {on_convergence(results.classify), "loss-classify"},
      {on_entropy(results.copy), "entropy-copy"},        {on_entropy(results.classify), "entropy-classify"}};
  add_formation(results.formations, found);
  add_anatomy(results.anatomy, found);
  return found;
}

}  // namespace polyhead::study
