#include "study/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>

#include "core/draws.h"

namespace polyhead::study {
namespace {

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share + 0.0);
  return text[0] == '-' && std::abs(100 * share) < 0.05 ? text + 1 : text;
}
std::string two_digits(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", std::abs(value) < 0.005 ? 0.0 : value);
  return text;
}
std::string number(double value) { return std::to_string(static_cast<std::int64_t>(std::llround(value))); }

using Shown = std::string (*)(double);

// "0.4 to 0.6", or "0.4" if all are alike.
std::string range(const std::vector<double>& values, Shown shown) {
  const Spread found = spread(values);
  const std::string low = shown(found.low), high = shown(found.high);
  return low == high ? low : low + " to " + high;
}

std::string of_seeds(std::size_t some, std::size_t all) {
  return std::to_string(some) + " of " + std::to_string(all) + (all == 1 ? " seed" : " seeds");
}

// One value of each.
template <class All, class Value>
std::vector<double> values_of(const All& all, const Value& value) {
  std::vector<double> values;
  for (const auto& one : all) values.push_back(value(one));
  return values;
}

// Whether a value rises or falls with the number of heads, over all runs and compared with shuffled ones.
struct Trend {
  double rho = 0;  // Spearman's correlation
  double p = 1;    // the share of shuffles with as large a correlation
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
  Draws draws(1, 0, 0, 0);
  for (int n = 0; n < kShuffles; ++n) {
    draws.shuffle(values);
    as_large += std::abs(heads::rank_correlation(heads, values)) >= std::abs(found.rho) - 1e-12;
  }
  found.p = (as_large + 1.0) / (kShuffles + 1.0);
  return found;
}
constexpr double kBelief = 0.05, kStillGaining = 0.01;

std::string words(const Trend& trend) {
  char text[64];
  std::snprintf(text, sizeof text, "rank correlation %s, p %s %.2g", two_digits(trend.rho).c_str(),
                trend.p < 0.001 ? "<" : "=", std::max(trend.p, 0.001));
  return text;
}

// "84.4 % to 87.1 % with 8 heads (5 of 5 seeds fall short, 2 of them still improving)"
std::string shortfall(const Contender& contender) {
  std::size_t unsolved = 0, gaining = 0;
  for (const Course& course : contender.courses) {
    if (course.steps_to(kSolved)) continue;
    ++unsolved;
    gaining += course.still_gaining() > kStillGaining;
  }
  if (unsolved == 0) return {};
  const std::string accuracies =
      range(values_of(contender.courses, [](const Course& course) { return course.accuracy(); }), percent);
  return accuracies + " with " + heads_text(contender.heads) + " (" + of_seeds(unsolved, contender.courses.size()) +
         " fall short" + (gaining > 0 ? ", " + std::to_string(gaining) + " of them still improving" : "") + ")";
}

// What models can do, given enough time.
std::string on_ability(const std::vector<Contender>& contenders) {
  std::string text = "Ability: on “" + contenders[0].task + "” (" + std::to_string(contenders[0].courses.size()) +
                     " seeds, trained to a stable 99 % or for " + std::to_string(contenders[0].budget()) + " steps), ";
  std::string short_of;
  std::size_t solved = 0;
  for (const Contender& contender : contenders) {
    solved += contender.solved();
    const std::string one = shortfall(contender);
    if (!one.empty()) short_of += (short_of.empty() ? "" : "; ") + one;
  }
  if (short_of.empty()) {
    return text +
           "every number of heads solves the task with every seed: it does not separate them by what they can do.";
  }
  const Trend found = trend(contenders, [](const Course& course) { return course.accuracy(); });
  text += found.p > kBelief ? "final accuracy shows no trend with the number of heads"
          : found.rho > 0   ? "final accuracy rises with the number of heads"
                            : "final accuracy falls with the number of heads";
  return text + " (" + words(found) + "): " + short_of + (solved > 0 ? "; the others solve it." : ".");
}

// How soon they do it. Runs that never get there count as slowest.
std::string on_speed(const std::vector<Contender>& contenders) {
  std::string text = "Speed: on “" + contenders[0].task + "”, ";
  std::string steps;
  for (const Contender& contender : contenders) {
    const std::optional<Spread> found = steps_to_solve(contender);
    if (!found) continue;
    steps +=
        (steps.empty() ? "" : ", ") + range({found->low, found->high}, number) + " with " + heads_text(contender.heads);
  }
  if (steps.empty()) return text + "no run reaches 99 %, so there is nothing to compare.";
  const Trend found = trend(contenders, [](const Course& course) {
    return static_cast<double>(course.steps_to(kSolved).value_or(std::numeric_limits<std::int32_t>::max()));
  });
  text += found.p > kBelief ? "the steps to 99 % show no trend with the number of heads"
          : found.rho > 0   ? "more heads need more steps to reach 99 %"
                            : "more heads need fewer steps to reach 99 %";
  return text + " (" + words(found) + "): " + steps + ".";
}

// Only models that have learnt the task: what the others attend to says nothing about it.
std::string on_entropy(const std::vector<Contender>& contenders) {
  std::vector<const Contender*> learnt;
  for (const Contender& contender : contenders) {
    if (contender.mean_entropies().size() >= 2) learnt.push_back(&contender);
  }
  const std::string text = "Entropy: on “" + contenders[0].task + "”, ";
  if (learnt.size() < 2) return text + "too few models solved the task to compare how broadly their heads attend.";
  const auto words_of = [](const Estimate& found) {
    return two_digits(found.mean) + " (" + two_digits(found.low) + " to " + two_digits(found.high) + ")";
  };
  const Contender &few = *learnt.front(), &many = *learnt.back();
  const Estimate a = heads::estimate(few.mean_entropies()), b = heads::estimate(many.mean_entropies());
  const std::string change = a.high < b.low   ? "heads attend more broadly"
                             : b.high < a.low ? "heads attend more narrowly"
                                              : "heads cannot be shown to attend more broadly or narrowly";
  return text + change + " with " + heads_text(many.heads) + " than with " + heads_text(few.heads) +
         ": mean relative entropy " + words_of(b) + " against " + words_of(a) +
         ", with 95 % intervals over the seeds that solved the task.";
}

// "2 of 3 seeds (best scores 0.41 to 0.96; 1 too close to call)".
std::string heads_found(const std::vector<Formation>& seeds, const std::string& role) {
  std::vector<double> scores;
  std::size_t close = 0;
  for (const Formation& seed : seeds) {
    if (const heads::HeadRoles* best = seed.best(role)) scores.push_back(best->score_in(role)->score);
    close += std::any_of(seed.roles.begin(), seed.roles.end(), [&](const heads::HeadRoles& head) {
      return head.score_in(role) != nullptr && head.score_in(role)->borderline();
    });
  }
  std::string note = scores.empty() ? "" : "best scores " + range(scores, two_digits);
  if (close > 0) note += (note.empty() ? "" : "; ") + std::to_string(close) + " too close to call";
  return of_seeds(scores.size(), seeds.size()) + (note.empty() ? "" : " (" + note + ")");
}

std::string accuracies(const std::vector<Formation>& seeds) {
  return range(values_of(seeds, [](const Formation& seed) { return seed.course.accuracy(); }), percent);
}

void add_knock_outs(const std::vector<KnockOut>& all, std::vector<report::Finding>& to) {
  std::string text = "Two layers copy with an accuracy of " +
                     range(values_of(all, [](const KnockOut& one) { return one.nothing; }), percent);
  const auto add = [&](const char* what, std::optional<double> KnockOut::*member) {
    std::vector<double> found;
    for (const KnockOut& one : all) {
      if (one.*member) found.push_back(*(one.*member));
    }
    if (!found.empty()) text += "; without " + std::string(what) + ": " + range(found, percent);
  };
  add("previous-token heads", &KnockOut::previous);
  add("induction heads", &KnockOut::induction);
  add("both", &KnockOut::both);
  add("all other heads", &KnockOut::others);
  to.push_back({text + ".", "knock-outs"});
}

void add_formation(const Formations& formations, std::vector<report::Finding>& to) {
  const std::vector<Formation>&two = formations.two_layers, &one = formations.one_layer,
        &fixed = formations.fixed_length;
  const auto describe = [](const std::vector<Formation>& seeds) {
    return accuracies(seeds) + ", with induction heads in " + heads_found(seeds, "induction") +
           " and previous-token heads in " + heads_found(seeds, "previous token");
  };
  to.push_back(
      {"Repeats of variable length: two layers reach " + describe(two) + "; one layer reaches " + describe(one) + ".",
       "formation"});
  const auto fooled = static_cast<std::size_t>(std::count_if(
      fixed.begin(), fixed.end(), [](const Formation& f) { return f.naive >= 0.4 && f.best("induction") == nullptr; }));
  to.push_back(
      {"Trained on segments of one length, models copy with an accuracy of " + accuracies(fixed) +
           ". Their best induction scores are " +
           range(values_of(fixed, [](const Formation& f) { return f.naive; }), two_digits) + " at that length and " +
           range(values_of(fixed, [](const Formation& f) { return f.ours; }), two_digits) + " at others." +
           (fooled > 0 ? " In " + of_seeds(fooled, fixed.size()) +
                             " the heads look back a fixed distance, which fools a detector that tests one length."
                       : ""),
       "controls"});
  add_knock_outs(formations.knock_outs, to);
}

void add_relations(const std::vector<Anatomy>& anatomies, std::vector<report::Finding>& to) {
  for (const auto& [name, first] : anatomies[0].relations) {
    std::vector<double> found, offsets;
    std::size_t above = 0, close = 0;
    for (const Anatomy& anatomy : anatomies) {
      const RelationFound& relation = anatomy.relations.at(name);
      found.push_back(relation.accuracy);
      offsets.push_back(relation.offset);
      const double bar = relation.offset + heads::kMargin;
      above += relation.accuracy >= bar;
      const auto& roles = anatomy.examination.roles;
      close += std::any_of(roles.begin(), roles.end(), [&, &name = name](const heads::HeadRoles& head) {
        return head.id == relation.head && head.score_in(name) != nullptr && head.score_in(name)->borderline();
      });
    }
    std::string text = "The grammar's link “" + name + "” has a head in " + of_seeds(above, anatomies.size()) +
                       ": the best head looks at the linked word in " + range(found, percent) +
                       " of cases, the best fixed offset in " + range(offsets, percent);
    if (close > 0) text += "; too close to call in " + of_seeds(close, anatomies.size());
    to.push_back({text + ".", "relations"});
  }
}

void add_pruning(const std::vector<Anatomy>& anatomies, std::vector<report::Finding>& to) {
  const auto within = [](const PruneCurve& curve) { return static_cast<double>(curve.within_budget); };
  std::vector<double> random;
  std::size_t beats_all = 0, below = 0;
  std::vector<double> from;
  for (const Anatomy& anatomy : anatomies) {
    const std::vector<double> own = values_of(anatomy.random, within);
    random.insert(random.end(), own.begin(), own.end());
    beats_all += within(anatomy.iterative) > spread(own).high;
    if (const auto first = anatomy.one_shot_below_random()) {
      ++below;
      from.push_back(static_cast<double>(*first));
    }
  }
  const std::string all = std::to_string(anatomies[0].examination.importance.size());
  const auto mine = values_of(anatomies, [&](const Anatomy& a) { return within(a.iterative); });
  std::string text = "Of " + all + " heads, " + range(mine, number) +
                     " can be removed for at most one point of accuracy, always the least important of those left; " +
                     range(values_of(anatomies, [&](const Anatomy& a) { return within(a.one_shot); }), number) +
                     " in the order of a single ranking; " + range(random, number) + " in random order (" +
                     two_digits(spread(random).mean) + " on average). ";
  text += beats_all == anatomies.size() ? "Ranking beats every random order with every seed."
          : spread(mine).mean > spread(random).mean + 0.5
              ? "Ranking beats every random order in only " + of_seeds(beats_all, anatomies.size()) + "."
              : "Ranking does not help here.";
  to.push_back({text, "pruning"});
  if (below > 0) {
    to.push_back({"A single ranking can fail at deep cuts: from " + range(from, number) +
                      " heads on it does worse than the average random order, in " + of_seeds(below, anatomies.size()) +
                      ".",
                  "pruning"});
  }
  const auto fewer = [](const Anatomy& a) {
    return 1 - static_cast<double>(a.saving.after.parameters) / static_cast<double>(a.saving.before.parameters);
  };
  to.push_back({"The pruned models have " + range(values_of(anatomies, fewer), percent) +
                    " fewer parameters; on sequences that pruning never saw they reach " +
                    range(values_of(anatomies, [](const Anatomy& a) { return a.saving.after.accuracy; }), percent) +
                    " where the originals reach " +
                    range(values_of(anatomies, [](const Anatomy& a) { return a.saving.before.accuracy; }), percent) +
                    ".",
                "saving"});
}

// Names the head that matters most, and says what it does.
void add_most_damaging(const std::vector<Anatomy>& anatomies, std::vector<report::Finding>& to) {
  std::string text = "The head whose removal costs most: ";
  std::size_t unexplained = 0;
  for (std::size_t n = 0; n < anatomies.size(); ++n) {
    const std::size_t place = anatomies[n].most_damaging();
    const HeadImportance& head = anatomies[n].examination.importance[place];
    const std::vector<heads::HeadRoles>& roles = anatomies[n].examination.roles;
    const heads::RoleScore* role = place < roles.size() ? roles[place].role() : nullptr;
    const bool explained = role != nullptr && role->role != "averaging";
    unexplained += !explained;
    text += (n > 0 ? "; " : "") + std::string("seed ") + std::to_string(n + 1) + ", " + to_string(head.id) + " (" +
            (role == nullptr ? "no known role" : role->role) + "), which adds " + two_digits(head.logit.mean) +
            " to the logit of the right word and whose removal raises the loss by " + two_digits(head.zero.mean);
  }
  text += ".";
  if (unexplained > 0) {
    text += " In " + of_seeds(unexplained, anatomies.size()) +
            " its role does not say why: where a head looks is not what it does.";
  }
  to.push_back({text, "damage"});
}

// Who stays after pruning, by their roles.
void add_survivors(const std::vector<Anatomy>& anatomies, std::vector<report::Finding>& to) {
  std::string text = "The heads that stay: ";
  for (std::size_t n = 0; n < anatomies.size(); ++n) {
    const std::vector<HeadId> gone = anatomies[n].iterative.removed();
    std::map<std::string, int> counts;
    std::size_t left = 0;
    for (const heads::HeadRoles& head : anatomies[n].examination.roles) {
      if (std::find(gone.begin(), gone.end(), head.id) != gone.end()) continue;
      ++left;
      ++counts[head.role() == nullptr ? "no known role" : head.role()->role];
    }
    std::string roles;
    for (const auto& [role, count] : counts) roles += (roles.empty() ? "" : ", ") + role + " " + std::to_string(count);
    text += (n > 0 ? "; " : "") + std::string("seed ") + std::to_string(n + 1) + ", " + std::to_string(left) + " of " +
            std::to_string(anatomies[n].examination.roles.size()) + (roles.empty() ? "" : " (" + roles + ")");
  }
  to.push_back({text + ". Roles are those that they had in the whole model.", "heads"});
}

void add_anatomy(const std::vector<Anatomy>& anatomies, std::vector<report::Finding>& to) {
  add_relations(anatomies, to);
  add_pruning(anatomies, to);
  const std::vector<double> rhos =
      values_of(anatomies, [](const Anatomy& a) { return a.examination.gradient_and_zero; });
  const double worst = spread(rhos).low;
  to.push_back({"Gradient and damage rank the heads " +
                    std::string(worst > 0.7   ? "alike"
                                : worst > 0.3 ? "similarly, not alike"
                                              : "differently") +
                    ": Spearman's correlation is " + range(rhos, two_digits) + ".",
                "damage"});
  add_most_damaging(anatomies, to);
  add_survivors(anatomies, to);
}

}  // namespace

std::vector<report::Finding> findings(const Results& results) {
  std::vector<report::Finding> found{
      {on_ability(results.classify), "final-accuracy"},   {on_speed(results.classify), "accuracy-classify"},
      {on_ability(results.copy), "final-accuracy"},       {on_speed(results.copy), "loss-copy"},
      {on_entropy(results.classify), "entropy-classify"}, {on_entropy(results.copy), "entropy-copy"}};
  add_formation(results.formations, found);
  add_anatomy(results.anatomies, found);
  return found;
}

}  // namespace polyhead::study
