#include "heads/roles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/draws.h"

namespace polyhead::heads {
namespace {

std::string with_sign(std::int64_t number) { return (number > 0 ? "+" : "") + std::to_string(number); }

// What a score is made of: a sum over rows, and what it is divided by; of odds, favour and against.
struct Parts {
  double sum = 0, of = 0;
};
using PartsOf = std::function<Parts(const SequenceSurvey&)>;

// A score and, sequence by sequence, what it and its control are made of.
struct Trial {
  RoleScore score;
  const std::vector<SequenceSurvey>* sequences;
  PartsOf parts;
  PartsOf control{};  // absent: the same number in every sequence
  bool odds = false;

  double value(const Parts& of) const {
    if (odds) return Odds{of.sum, of.of}.weight_at(kStandardShare);
    return of.of == 0 ? 0 : of.sum / of.of;
  }
};

Parts parts_of(const Share& share) { return {static_cast<double>(share.hits), static_cast<double>(share.count)}; }

PartsOf mean_of(Statistic value, Statistic count) {
  return [=](const SequenceSurvey& in) {
    const auto at = [&](Statistic which) { return static_cast<double>(in.sums[static_cast<std::size_t>(which)]); };
    return Parts{at(value), at(count)};
  };
}

PartsOf odds_on(KeyKind kind) {
  return [kind](const SequenceSurvey& in) {
    const Odds& odds = in.odds[static_cast<std::size_t>(kind)];
    return Parts{odds.favour, odds.against};
  };
}

double weight_on(const HeadSurvey& head, KeyKind kind) {
  return head.odds[static_cast<std::size_t>(kind)].weight_at(kStandardShare);
}

// Against what equal weights give to such keys.
Trial trial_on(const char* role, const HeadSurvey& head, KeyKind kind) {
  return {{role, weight_on(head, kind), kOnKeys, kStandardShare}, &head.sequences, odds_on(kind), {}, true};
}

// On keys of a slot, against those of another.
Trial trial_on(const char* role, const HeadSurvey& head, Slot slot, Slot control) {
  Trial made = trial_on(role, head, on_slot(slot));
  made.score.control = weight_on(head, on_slot(control));
  made.control = odds_on(on_slot(control));
  return made;
}

// Relations, the one furthest above its best fixed offset first.
void add_relations(const HeadSurvey& head, const Chance& chance, std::vector<Trial>& to) {
  const auto first = static_cast<std::ptrdiff_t>(to.size());
  for (const auto& [name, share] : head.relations) {
    const double offset = chance.relations.at(name);
    to.push_back({{name, share.value(), offset + kMargin, offset}, &head.sequences, [name](const SequenceSurvey& in) {
                    const auto found = in.relations.find(name);
                    return found == in.relations.end() ? Parts{} : parts_of(found->second);
                  }});
  }
  std::stable_sort(to.begin() + first, to.end(), [](const Trial& a, const Trial& b) {
    return a.score.score - a.score.control > b.score.score - b.score.control;
  });
}

Trial offset_trial(const HeadSurvey& head, const Chance& chance) {
  const auto [offset, share] = commonest_offset(head, chance);
  const auto rows = chance.offsets.find(offset);
  // Rows without a key at this offset are as many in every sequence.
  const double part = rows == chance.offsets.end() || chance.rows == 0
                          ? 1
                          : static_cast<double>(rows->second) / static_cast<double>(chance.rows);
  return {{kPositionalRole, share, 0.9, chance.first, "offset " + with_sign(offset)},
          &head.sequences,
          [offset = offset, part](const SequenceSurvey& in) {
            const auto found = in.offsets.find(offset);
            std::int64_t all = 0;
            for (const auto& [other, count] : in.offsets) all += count;
            return Parts{found == in.offsets.end() ? 0 : static_cast<double>(found->second),
                         static_cast<double>(all) * part};
          }};
}

std::vector<Trial> trials_of(const HeadSurvey& plain, const Chance& chance, const HeadSurvey& repeats,
                             const Chance& repeats_chance) {
  const bool one_off = weight_on(repeats, on_slot(kOffByOne)) > weight_on(repeats, on_slot(kChance));
  std::vector<Trial> all{trial_on(kInductionRole, repeats, kInduction, one_off ? kOffByOne : kChance),
                         trial_on(kDuplicateRole, repeats, kDuplicate, kChance)};
  add_relations(plain, chance, all);
  // As it is, not as odds: the keys further away, whose number grows with the text, do not compete with this one.
  all.push_back(
      {{kPreviousRole, repeats.mean(Statistic::previous_weight, Statistic::previous_rows), 0.4, repeats_chance.first},
       &repeats.sequences,
       mean_of(Statistic::previous_weight, Statistic::previous_rows)});
  all.push_back(offset_trial(plain, chance));
  if (plain.rarest.count > 0) {
    all.push_back({{kRareRole, plain.rarest.value(), 0.5, chance.rarest},
                   &plain.sequences,
                   [](const SequenceSurvey& in) { return parts_of(in.rarest); }});
  }
  for (const auto& [role, kind] :
       {std::pair(kSeparatorRole, kSeparators), {kSpecialRole, kSpecial}, {kFirstRole, kFirst}}) {
    if (plain.odds[static_cast<std::size_t>(kind)].known()) all.push_back(trial_on(role, plain, kind));
  }
  all.push_back({{kAveragingRole, plain.mean(Statistic::normalised_entropy, Statistic::normalised_rows), 0.9, 0},
                 &plain.sequences,
                 mean_of(Statistic::normalised_entropy, Statistic::normalised_rows)});
  return all;
}

double standard_error(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Measured by bench/roles.py: the heads of these differ between prose, code and lists.
bool changes_with_text(const std::string& role) {
  return role == kPositionalRole || role == kSeparatorRole || role == kRareRole || role == kAveragingRole;
}

// The score with its interval, and how likely chance alone would put it so far above its control.
RoleScore judged(const Trial& trial, const Resamples& resamples, double& p) {
  std::vector<std::array<Parts, 2>> parts;
  for (const SequenceSurvey& in : *trial.sequences) {
    parts.push_back({trial.parts(in), trial.control ? trial.control(in) : Parts{}});
  }
  const auto drawn = [&](const std::vector<std::int32_t>& counts, std::size_t which) {
    Parts sum;
    for (std::size_t n = 0; n < parts.size(); ++n) {
      sum.sum += counts[n] * parts[n][which].sum;
      sum.of += counts[n] * parts[n][which].of;
    }
    return sum;
  };
  RoleScore score = trial.score;
  std::vector<double> scores = resamples.each([&](const auto& counts) { return trial.value(drawn(counts, 0)); });
  std::vector<double> above = resamples.each([&](const auto& counts) { return trial.value(drawn(counts, 1)); });
  for (std::size_t n = 0; n < scores.size(); ++n) above[n] = scores[n] - (trial.control ? above[n] : score.control);
  p = normal_p(score.score - score.control, standard_error(above));
  score.interval = interval_of(scores);
  return score;
}

}  // namespace

double RoleScore::limit() const { return std::max(threshold, control + kMargin); }

bool RoleScore::holds() const { return score >= limit() && !by_chance && !number_only; }

bool RoleScore::borderline() const { return interval && interval->low < limit() && interval->high >= limit(); }

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

std::vector<HeadRoles> roles(const Survey& plain, const Survey& repeats, bool of_texts) {
  std::vector<HeadRoles> all;
  std::vector<double> chances;
  std::vector<RoleScore*> judged_ones;
  const auto groups_of = [](const Survey& survey) {
    std::vector<int> groups;
    if (survey.heads.empty()) return groups;
    for (const SequenceSurvey& sequence : survey.heads[0].sequences) groups.push_back(sequence.group);
    return groups;
  };
  const Resamples of_plain(groups_of(plain)), of_repeats(groups_of(repeats));
  for (std::size_t n = 0; n < plain.heads.size(); ++n) {
    HeadRoles& head = all.emplace_back(HeadRoles{plain.heads[n].id, {}});
    for (const Trial& trial : trials_of(plain.heads[n], plain.chance, repeats.heads[n], repeats.chance)) {
      if (trial.sequences->size() < 2) {
        head.scores.push_back(trial.score);
        continue;
      }
      const bool of_text = trial.sequences == &plain.heads[n].sequences;
      double p = 0;
      head.scores.push_back(judged(trial, of_text ? of_plain : of_repeats, p));
      if (trial.score.role != kAveragingRole) head.scores.back().p = p;
    }
  }
  for (HeadRoles& head : all) {
    for (RoleScore& score : head.scores) {
      score.number_only = of_texts && changes_with_text(score.role);
      if (!score.p) continue;
      chances.push_back(*score.p);
      judged_ones.push_back(&score);
    }
  }
  const std::vector<bool> found = findings(chances);
  for (std::size_t n = 0; n < found.size(); ++n) judged_ones[n]->by_chance = !found[n];
  return all;
}

HighestScores highest_scores(const Survey& plain, const Survey& repeats) {
  HighestScores highest;
  for (std::size_t n = 0; n < plain.heads.size(); ++n) {
    for (const Trial& trial : trials_of(plain.heads[n], plain.chance, repeats.heads[n], repeats.chance)) {
      if (trial.score.role == kAveragingRole) continue;
      double& most = highest[trial.score.role];
      most = std::max(most, trial.score.score);
    }
  }
  return highest;
}

std::vector<std::vector<std::size_t>> other_orders(std::size_t layers, std::size_t count, std::uint64_t seed) {
  constexpr std::uint32_t kDomain = 0x6f726465u;  // separate from other users of a seed
  std::vector<std::vector<std::size_t>> orders;
  std::vector<std::size_t> order(layers);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Draws draws(seed, 0, 0, kDomain);
  while (layers > 1 && orders.size() < count) {
    draws.shuffle(order);
    bool moved = true;
    for (std::size_t n = 0; n < layers; ++n) moved = moved && order[n] != n;
    if (moved) orders.push_back(order);
  }
  return orders;
}

void add_control(const HighestScores& of_other_orders, std::vector<HeadRoles>& to) {
  for (HeadRoles& head : to) {
    for (RoleScore& score : head.scores) {
      const auto found = of_other_orders.find(score.role);
      if (found != of_other_orders.end()) score.control = std::max(score.control, found->second);
    }
  }
}

namespace {

// Each order is tried on one probe of either kind, in turn: together on all of them.
HighestScores of_other_orders(autograd::Tape& tape, const model::Transformer& model, const Probes& probes) {
  HighestScores highest;
  std::size_t turn = 0;
  for (const std::vector<std::size_t>& order : other_orders(model.config().layers.size(), kOtherOrders, 1)) {
    const auto in_order = [&](const std::vector<Probe>& all) {
      return survey(tape, model, std::span(&all[turn % all.size()], 1), probes.counts, {.order = &order});
    };
    for (const auto& [role, score] : highest_scores(in_order(probes.plain), in_order(probes.repeats))) {
      highest[role] = std::max(highest[role], score);
    }
    ++turn;
  }
  return highest;
}

}  // namespace

SurveyedRoles survey_roles(autograd::Tape& tape, const model::Transformer& model, const Probes& probes) {
  Survey plain = survey(tape, model, probes.plain, probes.counts, {});
  std::vector<HeadRoles> found = roles(plain, survey(tape, model, probes.repeats, probes.counts, {}), probes.of_texts);
  const bool any =
      std::any_of(found.begin(), found.end(), [](const HeadRoles& head) { return head.role() != nullptr; });
  if (probes.of_texts && any) add_control(of_other_orders(tape, model, probes), found);
  return {std::move(plain), std::move(found)};
}

SurveyedRoles survey_roles(Context& context, const model::Transformer& model, const Probes& probes) {
  autograd::Tape tape(context, false);
  return survey_roles(tape, model, probes);
}

}  // namespace polyhead::heads
