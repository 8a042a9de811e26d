#include "study/findings.h"

#include <algorithm>
#include <limits>

#include "study/words.h"

namespace polyhead::study {
namespace {

constexpr double kStillGaining = 0.01;

// What models can do, given enough time.
std::string on_ability(const std::vector<Contender>& contenders) {
  std::string text = "Ability: on “" + contenders[0].task + "” (" + counted(contenders[0].courses.size(), "seed") +
                     ", trained to a stable 99 % or for " + std::to_string(contenders[0].budget()) + " steps), ";
  std::string each;
  std::size_t unsolved = 0, gaining = 0;
  for (const Contender& contender : contenders) {
    for (const Course& course : contender.courses) {
      if (course.steps_to(kSolved)) continue;
      ++unsolved;
      gaining += course.still_gaining() > kStillGaining;
    }
    each += (each.empty() ? "" : ", ") +
            range(values_of(contender.courses, [](const Course& course) { return course.accuracy(); }), percent) +
            " with " + heads_text(contender.heads);
    const std::size_t solved = contender.solved();
    if (solved > 0) each += " (" + of_seeds(solved, contender.courses.size()) + " there)";
  }
  if (unsolved == 0) {
    return text +
           "every number of heads solves the task with every seed: it does not separate them by what they can do.";
  }
  const Trend found = trend(contenders, [](const Course& course) { return course.accuracy(); });
  text += found.rises()   ? "final accuracy rises with the number of heads"
          : found.falls() ? "final accuracy falls with the number of heads"
                          : "final accuracy shows no trend with the number of heads";
  text += " (" + in_words(found) + "): " + each + ".";
  if (gaining > 0) text += " Of those that fall short, " + std::to_string(gaining) + " were still improving.";
  return text;
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
  text += found.rises()   ? "more heads need more steps to reach 99 %"
          : found.falls() ? "more heads need fewer steps to reach 99 %"
                          : "the steps to 99 % show no trend with the number of heads";
  const bool some_never = std::any_of(contenders.begin(), contenders.end(), [](const Contender& contender) {
    return contender.solved() < contender.courses.size();
  });
  return text + " (" + in_words(found) + "): " + steps + "." +
         (some_never ? " Runs that do not get there count as slowest." : "");
}

// "On “copy”, at 0.05 nats, heads attend more broadly the more there are (…): 0.41 with 1 head, 0.62 with 16 heads."
std::string on_entropy(const std::vector<Contender>& contenders, const std::string& where,
                       const std::function<double(const Course&)>& entropy) {
  const Trend found = trend(contenders, entropy);
  const std::string change = found.rises() ? "heads attend more broadly the more there are"
                             : found.falls()
                                 ? "heads attend more narrowly the more there are"
                                 : "heads cannot be shown to attend more broadly or narrowly with their number";
  const auto with = [&](const Contender& contender) {
    return with_interval(heads::estimate(values_of(contender.courses, entropy)), two_digits) + " with " +
           heads_text(contender.heads);
  };
  return "On “" + contenders[0].task + "”, " + where + ", " + change + " (" + in_words(found) +
         "): " + with(contenders.front()) + ", " + with(contenders.back()) + ".";
}

void add_comparison(const TaskStudy& task, std::vector<report::Finding>& to) {
  to.push_back({on_ability(task.contenders), "accuracy-" + task.task});
  const bool any = std::any_of(task.contenders.begin(), task.contenders.end(),
                               [](const Contender& contender) { return contender.solved() > 0; });
  if (any) to.push_back({on_speed(task.contenders), "accuracy-" + task.task});
}

void add_entropies(const TaskStudy& task, std::vector<report::Finding>& to) {
  const Common common = common_of(task.contenders);
  to.push_back({on_entropy(task.contenders, "at " + two_digits(common.loss) + " nats",
                           [&](const Course& course) { return entropy_at_loss(course, common.loss); }),
                "entropy-loss"});
  to.push_back({on_entropy(task.contenders, "at step " + number(common.step),
                           [&](const Course& course) { return entropy_at_step(course, common.step); }),
                "entropy-steps"});
  std::vector<double> rises;
  for (std::size_t seed = 0; seed < task.dissected().courses.size(); ++seed) {
    const Spread found = spread(task.dissected().entropies(seed));
    rises.push_back(found.high - found.low);
  }
  to.push_back({"From the sharpest to the widest of " + heads_text(kDissected) +
                    " of one model, relative entropy rises by " + range(rises, two_digits) + ".",
                "entropy-" + task.task});
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
    return accuracies(seeds) + ", with induction heads in " + heads_found(seeds, heads::kInductionRole) +
           " and previous-token heads in " + heads_found(seeds, heads::kPreviousRole);
  };
  to.push_back(
      {"Repeats of variable length: two layers reach " + describe(two) + "; one layer reaches " + describe(one) + ".",
       "formation"});
  const auto fooled = static_cast<std::size_t>(std::count_if(fixed.begin(), fixed.end(), [](const Formation& f) {
    return f.naive >= heads::kOnKeys && f.best(heads::kInductionRole) == nullptr;
  }));
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

}  // namespace

std::vector<report::Finding> findings(const Results& results) {
  std::vector<report::Finding> found;
  for (const TaskStudy& task : results.tasks) add_comparison(task, found);
  for (const TaskStudy& task : results.tasks) add_entropies(task, found);
  add_formation(results.formations, found);
  for (const TaskStudy& task : results.tasks) add_anatomies(task, found);
  for (const TaskStudy& task : results.tasks) add_removals(task, found);
  for (const TaskStudy& task : results.tasks) add_survivors(task, found);
  return found;
}

}  // namespace polyhead::study
