#include <algorithm>

#include "study/findings.h"
#include "study/words.h"

namespace polyhead::study {
namespace {

constexpr double kPoint = 0.01;

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

// How many heads have each role: "averaging 3, induction 1".
class Counts {
 public:
  void add(const heads::HeadRoles& head) {
    ++counts_[head.role() == nullptr ? "no known role" : head.role()->role];
    ++heads_;
  }
  std::size_t heads() const { return heads_; }
  std::string text() const {
    std::vector<std::pair<std::string, int>> all(counts_.begin(), counts_.end());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text;
    for (const auto& [role, count] : all) text += (text.empty() ? "" : ", ") + role + " " + std::to_string(count);
    return text;
  }

 private:
  std::map<std::string, int> counts_;
  std::size_t heads_ = 0;
};

// Names the head that matters most, and says how often its role does not say why.
void add_most_damaging(const std::vector<Anatomy>& anatomies, std::vector<report::Finding>& to) {
  const std::size_t place = anatomies[0].most_damaging();
  const HeadImportance& head = anatomies[0].examination.importance[place];
  const heads::RoleScore* role = anatomies[0].examination.roles[place].role();
  const auto unexplained =
      static_cast<std::size_t>(std::count_if(anatomies.begin(), anatomies.end(), [](const Anatomy& anatomy) {
        const heads::RoleScore* own = anatomy.examination.roles[anatomy.most_damaging()].role();
        return own == nullptr || own->role == heads::kAveragingRole;
      }));
  std::string text = "The head of the first seed whose absence costs most is " + to_string(head.id) + " (" +
                     (role == nullptr ? "no known role" : role->role) + "): it adds " + two_digits(head.logit.mean) +
                     " to the logit of the right word, and without it the loss rises by " + two_digits(head.zero.mean) +
                     ".";
  if (unexplained > 0) {
    text += " In " + of_seeds(unexplained, anatomies.size()) +
            " the role of that head does not say why: where a head looks is not what it does.";
  }
  to.push_back({text, "damage"});
}

// The share of all heads that may go, in an order that `count` picks; one value for each seed.
std::vector<double> shares(const Contender& contender, const std::function<double(const Removal&)>& count) {
  return values_of(contender.removals,
                   [&](const Removal& one) { return count(one) / static_cast<double>(contender.all_heads()); });
}

}  // namespace

// Only a language with links has heads of which it is known what they should do.
void add_anatomies(const TaskStudy& task, std::vector<report::Finding>& to) {
  const std::vector<Anatomy>& anatomies = task.anatomies;
  if (anatomies[0].relations.empty()) return;
  add_relations(anatomies, to);
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
}

void add_removals(const TaskStudy& task, std::vector<report::Finding>& to) {
  std::size_t alone = 0, heads = 0;
  for (const Anatomy& anatomy : task.anatomies) {
    for (const HeadImportance& head : anatomy.examination.importance) {
      alone += head.accuracy_loss < kPoint;
      ++heads;
    }
  }
  to.push_back({"On “" + task.task + "”, " + std::to_string(alone) + " of " + std::to_string(heads) +
                    " heads of models with " + heads_text(kDissected) +
                    " cost less than a point when they are out alone.",
                "alone"});
  std::vector<std::string> ranked, by_gradient, random;
  std::vector<double> ahead;
  std::size_t models = 0, broken = 0;
  double most = 0;
  for (const Contender& contender : task.contenders) {
    if (contender.heads < kDissected) continue;
    const auto by_rank = [](const Removal& one) { return static_cast<double>(one.ranked.within_budget); };
    const auto by_chance = [](const Removal& one) { return one.mean_random(); };
    const auto said = [&](const auto& count) { return percent(spread(shares(contender, count)).mean); };
    ranked.push_back(said(by_rank) + " of " + heads_text(contender.heads));
    by_gradient.push_back(said([](const Removal& one) { return static_cast<double>(one.by_gradient.within_budget); }));
    random.push_back(said(by_chance));
    const std::vector<double> more =
        shares(contender, [&](const Removal& one) { return by_rank(one) - by_chance(one); });
    ahead.insert(ahead.end(), more.begin(), more.end());
    for (const Removal& one : contender.removals) {
      ++models;
      broken += one.ranked_loss > kPoint;
      most = std::max(most, one.ranked_loss);
    }
  }
  const Estimate gain = heads::estimate(ahead);
  const std::string text = "On “" + task.task + "”, " + listed(ranked) +
                           " can go for at most one point of accuracy in the order of what each costs alone, " +
                           listed(by_gradient) + " by gradient, " + listed(random) + " in random order. Ranking is " +
                           (gain.low > 0    ? "better than chance"
                            : gain.high < 0 ? "worse than chance"
                                            : "not shown to be better than chance") +
                           ": " + with_interval(gain, percent) + " of the heads more.";
  to.push_back({text, "removal"});
  to.push_back({"On “" + task.task + "”, sequences that neither ranked nor stopped say that " + std::to_string(broken) +
                    " of " + std::to_string(models) + " pruned models lose more than the point" +
                    (most > 0 ? ", " + percent(most) + " at most." : "."),
                "removals"});
}

void add_survivors(const TaskStudy& task, std::vector<report::Finding>& to) {
  Counts stay, go;
  for (std::size_t n = 0; n < task.anatomies.size(); ++n) {
    const std::vector<HeadId> gone = task.dissected().removals[n].ranked.removed();
    for (const heads::HeadRoles& head : task.anatomies[n].examination.roles) {
      (std::find(gone.begin(), gone.end(), head.id) == gone.end() ? stay : go).add(head);
    }
  }
  const std::size_t all = stay.heads() + go.heads(), models = task.anatomies.size();
  std::string text = "On “" + task.task + "”, " + std::to_string(stay.heads()) + " of " + std::to_string(all) +
                     " heads of " + counted(models, "model") + " stay";
  if (stay.heads() > 0) text += " (" + stay.text() + ")";
  if (go.heads() > 0) text += ", the others go (" + go.text() + ")";
  to.push_back({text + ". Roles are those that they had in the whole model.", "survivors-" + task.task});
}

}  // namespace polyhead::study
