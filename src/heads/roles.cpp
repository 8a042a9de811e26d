#include "heads/roles.h"

#include <algorithm>
#include <cmath>

namespace polyhead::heads {
namespace {

std::string with_sign(std::int64_t number) { return (number > 0 ? "+" : "") + std::to_string(number); }

// Relations, the one furthest above its best fixed offset first.
void add_relations(const HeadSurvey& head, const Chance& chance, std::vector<RoleScore>& to) {
  const auto first = static_cast<std::ptrdiff_t>(to.size());
  for (const auto& [name, share] : head.relations) {
    const double offset = chance.relations.at(name);
    to.push_back({name, share.value(), offset + kMargin, offset});
  }
  std::stable_sort(to.begin() + first, to.end(),
                   [](const RoleScore& a, const RoleScore& b) { return a.score - a.control > b.score - b.control; });
}

std::vector<RoleScore> scores_of(const HeadSurvey& plain, const Chance& chance, const HeadSurvey& repeats,
                                 const Chance& repeats_chance) {
  const double random = repeats.target(kChance);
  const auto [offset, share] = commonest_offset(plain, chance);
  std::vector<RoleScore> scores{
      {"induction", repeats.target(kInduction), 0.4, std::max(repeats.target(kOffByOne), random)},
      {"duplicate", repeats.target(kDuplicate), 0.4, random}};
  add_relations(plain, chance, scores);
  scores.push_back({"previous token", repeats.mean(Statistic::previous_weight, Statistic::previous_rows), 0.4,
                    repeats_chance.first});
  scores.push_back({"positional", share, 0.9, chance.first, "offset " + with_sign(offset)});
  if (plain.rarest.count > 0) scores.push_back({"rare token", plain.rarest.value(), 0.5, chance.rarest});
  if (chance.marked > 0) {
    scores.push_back({"separator", plain.mean(Statistic::marked_weight, Statistic::rows), 0.4, chance.marked});
  }
  scores.push_back({"first key", plain.mean(Statistic::first_weight, Statistic::rows), 0.4, chance.first});
  scores.push_back({"averaging", plain.mean(Statistic::normalised_entropy, Statistic::normalised_rows), 0.9, 0});
  return scores;
}

}  // namespace

bool RoleScore::holds() const { return score >= threshold && score >= control + kMargin; }

bool RoleScore::close() const { return std::abs(score - std::max(threshold, control + kMargin)) < kClose; }

const RoleScore* HeadRoles::score_in(const std::string& wanted) const {
  const auto found = std::find_if(scores.begin(), scores.end(), [&](const RoleScore& s) { return s.role == wanted; });
  return found == scores.end() ? nullptr : &*found;
}

const RoleScore* HeadRoles::role() const {
  for (const RoleScore& score : scores) {
    if (score.holds()) return &score;
  }
  return nullptr;
}

std::vector<HeadRoles> roles(const Survey& plain, const Survey& repeats) {
  std::vector<HeadRoles> all;
  for (std::size_t n = 0; n < plain.heads.size(); ++n) {
    all.push_back({plain.heads[n].id, scores_of(plain.heads[n], plain.chance, repeats.heads[n], repeats.chance)});
  }
  return all;
}

SurveyedRoles survey_roles(autograd::Tape& tape, const model::Transformer& model, const Probes& probes) {
  Survey plain = survey(tape, model, probes.plain, probes.counts, {});
  std::vector<HeadRoles> found = roles(plain, survey(tape, model, probes.repeats, probes.counts, {}));
  return {std::move(plain), std::move(found)};
}

SurveyedRoles survey_roles(Context& context, const model::Transformer& model, const Probes& probes) {
  autograd::Tape tape(context, false);
  return survey_roles(tape, model, probes);
}

}  // namespace polyhead::heads
