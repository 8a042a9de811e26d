#include "study/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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

const Contender& best_of(const std::vector<Contender>& contenders) {
  return *std::max_element(contenders.begin(), contenders.end(), [](const Contender& a, const Contender& b) {
    return final_accuracy(a).mean < final_accuracy(b).mean;
  });
}
const Contender& worst_of(const std::vector<Contender>& contenders) {
  return *std::min_element(contenders.begin(), contenders.end(), [](const Contender& a, const Contender& b) {
    return final_accuracy(a).mean < final_accuracy(b).mean;
  });
}

// What the number of heads does to the accuracy: nothing beyond noise if the seeds of best and worst overlap.
std::string on_accuracy(const std::vector<Contender>& contenders) {
  const Contender &best = best_of(contenders), &worst = worst_of(contenders);
  const Spread high = final_accuracy(best), low = final_accuracy(worst);
  const std::string& task = contenders[0].task;
  if (high.mean == low.mean) {
    return "On the task “" + task + "” the number of heads makes no difference to the final accuracy: all reach " +
           percent(high.mean) + ".";
  }
  if (contenders[0].courses.size() == 1) {
    return "On the task “" + task + "”, with one seed only: " + percent(high.mean) + " with " + heads_text(best.heads) +
           ", " + percent(low.mean) + " with " + heads_text(worst.heads) +
           ". What of it is noise takes more seeds to say.";
  }
  if (overlap(high, low)) {
    return "On the task “" + task +
           "” the number of heads makes no difference beyond noise to the final accuracy: " + percent(low.mean) +
           " with " + heads_text(worst.heads) + ", " + percent(high.mean) + " with " + heads_text(best.heads) +
           ", and the seeds overlap.";
  }
  const std::int64_t steps = best.courses[0].points.back().step;
  return "On the task “" + task + "” the number of heads decides. After " + std::to_string(steps) +
         " steps: " + percent(high.mean) + " with " + heads_text(best.heads) + " (" + percent(high.low) + " to " +
         percent(high.high) + " over seeds), " + percent(low.mean) + " with " + heads_text(worst.heads) + " (" +
         percent(low.low) + " to " + percent(low.high) +
         "), at the same width and nearly the same number of parameters.";
}

std::string on_convergence(const std::vector<Contender>& contenders) {
  std::vector<const Contender*> solved;
  for (const Contender& contender : contenders) {
    if (steps_to_solve(contender).solved == contender.courses.size()) solved.push_back(&contender);
  }
  const std::string& task = contenders[0].task;
  if (solved.empty()) return "On “" + task + "” no number of heads gets to 95 % with every seed.";
  const auto by_steps = [](const Contender* a, const Contender* b) {
    return steps_to_solve(*a).steps.mean < steps_to_solve(*b).steps.mean;
  };
  const Contender *fast = *std::min_element(solved.begin(), solved.end(), by_steps),
                  *slow = *std::max_element(solved.begin(), solved.end(), by_steps);
  const Spread few = steps_to_solve(*fast).steps, many = steps_to_solve(*slow).steps;
  std::string text = "On “" + task + "” " + std::to_string(solved.size()) + " of " + std::to_string(contenders.size()) +
                     " head counts reach 95 % with every seed";
  if (solved.size() == 1) return text + ": " + heads_text(fast->heads) + ", after " + number(few.mean) + " steps.";
  text += ", the fastest with " + heads_text(fast->heads) + " after " + number(few.mean) + " steps, the slowest with " +
          heads_text(slow->heads) + " after " + number(many.mean);
  return text + (overlap(few, many) ? ": no difference beyond noise." : ".");
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

void add_formation(const Formations& formations, std::vector<report::Finding>& to) {
  const Formation &two = formations.two_layers, &one = formations.one_layer, &fixed = formations.fixed_length;
  const auto induction = two.best("induction"), previous = two.best("previous token");
  std::string text = "Repeats of variable length: two layers reach " + percent(two.course.accuracy()) + ", one layer " +
                     percent(one.course.accuracy()) + ". ";
  text += induction ? "Induction heads form in the second layer (best: " + to_string(*induction) + ", " +
                          two_digits(two.ours) + ")"
                    : "No induction head passes its threshold (best score " + two_digits(two.ours) + ")";
  text += previous ? ", and a previous-token head in the layer of " + to_string(*previous) + "." : ".";
  text += one.best("induction") ? " The model of one layer has one, too." : " The model of one layer has none.";
  to.push_back({text, "formation"});
  to.push_back(
      {"A model trained on segments of one length copies with " + percent(fixed.course.accuracy()) +
           " accuracy. A naive detector gives its best head an induction score of " + two_digits(fixed.naive) +
           "; on segments of other lengths it is " + two_digits(fixed.ours) + ": " +
           (fixed.best("induction") ? "it holds up." : "it looks back a fixed distance and is no induction head."),
       "controls"});
  const KnockOut* worst = nullptr;
  for (const KnockOut& one_out : formations.knock_outs) {
    if (worst == nullptr || one_out.accuracy < worst->accuracy) worst = &one_out;
  }
  if (formations.knock_outs.size() < 2) return;
  std::string out = "Knock-out: with " + worst->what + " shut the copies are right in " + percent(worst->accuracy) +
                    " of cases instead of " + percent(formations.knock_outs[0].accuracy);
  for (const KnockOut& control : formations.knock_outs) {
    if (control.what.starts_with("other")) out += "; shutting the others instead leaves " + percent(control.accuracy);
  }
  to.push_back({out + ".", "knock-outs"});
}

void add_anatomy(const Anatomy& anatomy, std::vector<report::Finding>& to) {
  for (const auto& [name, found] : anatomy.relations) {
    const bool above = found.accuracy >= found.offset + heads::kMargin;
    to.push_back({"The link “" + name + "” of the grammar " +
                      (above ? "has a head: " + to_string(found.head) + " looks at the right word in " +
                                   percent(found.accuracy) + " of cases"
                             : "has no head of its own: the best one, " + to_string(found.head) + ", gets " +
                                   percent(found.accuracy)) +
                      ", where the best fixed offset gets " + percent(found.offset) + ".",
                  "relations"});
  }
  const std::size_t all = anatomy.importance.size(), gone = anatomy.iterative.within_budget;
  std::vector<double> random;
  for (const heads::PruneCurve& curve : anatomy.random) random.push_back(static_cast<double>(curve.within_budget));
  const Spread chance = spread(random);
  std::string text = "Of " + std::to_string(all) + " heads " + std::to_string(gone) + " (" +
                     percent(static_cast<double>(gone) / static_cast<double>(all)) +
                     ") can go at a cost of at most one point of accuracy, least important first; in random order " +
                     two_digits(chance.mean) + " on average (" + number(chance.low) + " to " + number(chance.high) +
                     ")";
  text += static_cast<double>(gone) > chance.high    ? "."
          : static_cast<double>(gone) >= chance.mean ? ": better than the mean, though not than every random order."
                                                     : ": the ranking does not help here.";
  to.push_back({text, "pruning"});
  const double rho = anatomy.rank_correlation;
  to.push_back({"Gradient and damage rank the heads " +
                    std::string(rho > 0.7   ? "alike"
                                : rho > 0.3 ? "similarly, not alike"
                                            : "differently") +
                    ": Spearman's correlation is " + two_digits(rho) + ".",
                "damage"});
  const Saving &before = anatomy.before, &after = anatomy.after;
  to.push_back({"The pruned model has " +
                    percent(1 - static_cast<double>(after.parameters) / static_cast<double>(before.parameters)) +
                    " fewer parameters; a forward pass takes " +
                    two_digits(after.milliseconds_1 / before.milliseconds_1) + " of the time at batch 1 and " +
                    two_digits(after.milliseconds_16 / before.milliseconds_16) + " at batch 16.",
                "saving"});
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
