#include "heads/circuits.h"

#include <algorithm>
#include <set>

#include "heads/importance.h"
#include "replicate/experiments.h"
#include "replicate/words.h"

namespace polyhead::replicate {
namespace {

constexpr double kEnd = 0.01;  // of the vocabulary: the highest or lowest hundredth

// Whether some hold, as ones and noughts.
Estimate share_of(const std::vector<double>& of_tokens) { return heads::estimate(of_tokens); }

struct OwnPlace {
  std::vector<HeadId> ids;
  std::vector<std::vector<double>> highest, lowest;  // [heads][tokens]: the token's own logit is among those
};

// Where the logit of the token that was looked at stands among all.
OwnPlace own_places(Specimen& specimen) {
  const std::vector<std::int32_t> tokens = common_words(specimen, static_cast<std::size_t>(specimen.effort().words));
  OwnPlace found{model::all_heads(specimen.config()), {}, {}};
  heads::each_ov(specimen.context(), specimen.model(), tokens, [&](std::size_t, const ConstTensorView& logits) {
    const std::int64_t V = specimen.config().vocabulary;
    const auto end = std::max<std::int64_t>(static_cast<std::int64_t>(kEnd * static_cast<double>(V)), 1);
    std::vector<double>&highest = found.highest.emplace_back(), &lowest = found.lowest.emplace_back();
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      const float* row = logits.as<float>() + static_cast<std::int64_t>(n) * V;
      const float own = row[tokens[n]];
      highest.push_back(std::count_if(row, row + V, [&](float other) { return other >= own; }) <= end);
      lowest.push_back(std::count_if(row, row + V, [&](float other) { return other <= own; }) <= end);
    }
  });
  return found;
}

std::size_t most_of(const std::vector<std::vector<double>>& of_heads) {
  std::size_t best = 0;
  for (std::size_t n = 1; n < of_heads.size(); ++n) {
    if (mean_of(chosen_on(of_heads[n])) > mean_of(chosen_on(of_heads[best]))) best = n;
  }
  return best;
}

// Each head's share, over heads.
Estimate over_heads(const std::vector<std::vector<double>>& of_heads, const std::function<bool(std::size_t)>& takes) {
  std::vector<double> shares;
  for (std::size_t n = 0; n < of_heads.size(); ++n) {
    if (takes(n)) shares.push_back(mean_of(of_heads[n]));
  }
  return shares.empty() ? Estimate{} : heads::estimate(shares);
}

}  // namespace

Result copying(Specimen& specimen) {
  const OwnPlace places = own_places(specimen);
  const heads::Survey& repeats = specimen.on_repeats();
  std::set<std::size_t> inductive;
  Result result;
  for (std::size_t n = 0; n < places.ids.size(); ++n) {
    if (mean_of(by_sequence(repeats.heads[n], heads::kInduction)) < 0.4) continue;
    inductive.insert(n);
    result.heads.push_back(places.ids[n]);
  }
  result.ours = {"tokens whose own logit an induction head puts in the highest hundredth, mean over these heads",
                 over_heads(places.highest, [&](std::size_t n) { return inductive.contains(n); }), Unit::percent};
  result.control = {"the same of all other heads",
                    over_heads(places.highest, [&](std::size_t n) { return !inductive.contains(n); }), Unit::percent};
  if (inductive.empty()) {
    result.sentence = "No head gives 0.4 of its weight to the token after the earlier occurrence.";
    return result;
  }
  result.verdict = verdict_on(result.ours.value, result.control.value, 0.5);
  if (result.verdict != Verdict::comes_out && result.ours.value.low > result.control.value.high) {
    result.verdict = Verdict::partly;
  }
  result.sentence = std::to_string(inductive.size()) +
                    " induction heads put the token that they look at into the "
                    "highest hundredth of the logits in " +
                    text_of(result.ours) + " of the cases, other heads in " + text_of(result.control) + ".";
  return result;
}

Result copy_suppression(Specimen& specimen) {
  const OwnPlace places = own_places(specimen);
  const std::size_t best = most_of(places.lowest);
  Result result;
  result.heads = {places.ids[best]};
  result.ours = {"tokens whose own logit head " + to_string(places.ids[best]) + " puts in the lowest hundredth",
                 share_of(told_on(places.lowest[best])), Unit::percent};
  result.control = {"the same of all other heads", over_heads(places.lowest, [&](std::size_t n) { return n != best; }),
                    Unit::percent};
  result.verdict = verdict_on(result.ours.value, result.control.value, 0.5);
  const Asked asked = ask_names(specimen);
  std::string without = ".";
  bool opens = false;
  if (!asked.prompts.empty()) {
    const std::vector<double> change = differences(asked.margins(specimen, {}), asked.margins(specimen, result.heads));
    result.further = {{"change of the margin of the right name without it", heads::estimate(change)}};
    without = "; without it the right name's margin changes by " + text_of(result.further[0]) + ".";
    opens = result.further[0].value.low > 0;
  }
  if (result.verdict == Verdict::comes_out && !opens) result.verdict = Verdict::partly;
  if (result.verdict != Verdict::comes_out && result.ours.value.low > result.control.value.high) {
    result.verdict = Verdict::partly;
  }
  result.sentence = "Head " + to_string(places.ids[best]) + " puts the token that it looks at into the lowest " +
                    "hundredth of the logits in " + text_of(result.ours) + " of the cases, other heads in " +
                    text_of(result.control) + without;
  return result;
}

Result successors(Specimen& specimen) {
  const std::vector<Ordinal> ordinals = ordinals_of(specimen);
  std::vector<std::int32_t> tokens;
  for (const Ordinal& one : ordinals) tokens.push_back(one.token);
  std::vector<std::vector<double>> next, before;  // [heads][ordinals that have both neighbours]
  heads::each_ov(specimen.context(), specimen.model(), tokens, [&](std::size_t, const ConstTensorView& logits) {
    std::vector<double>&of_next = next.emplace_back(), &of_before = before.emplace_back();
    for (std::size_t n = 0; n < ordinals.size(); ++n) {
      if (ordinals[n].next < 0 || ordinals[n].before < 0) continue;
      const float* row = logits.as<float>() + static_cast<std::int64_t>(n) * specimen.config().vocabulary;
      std::size_t top = n == 0 ? 1 : 0;
      for (std::size_t other = 0; other < ordinals.size(); ++other) {
        if (other != n && row[tokens[other]] > row[tokens[top]]) top = other;
      }
      of_next.push_back(static_cast<std::ptrdiff_t>(top) == ordinals[n].next);
      of_before.push_back(static_cast<std::ptrdiff_t>(top) == ordinals[n].before);
    }
  });
  Result result;
  if (next.empty() || next[0].size() < 8) {
    result.sentence = "The tokenizer has too few ordinal words of one token.";
    return result;
  }
  const std::size_t best = most_of(next), backward = most_of(before);
  const HeadId id = model::all_heads(specimen.config())[best];
  result.heads = {id};
  result.ours = {"ordinal words of which head " + to_string(id) + " makes the successor, before all other ordinals",
                 share_of(told_on(next[best])), Unit::percent};
  result.control = {"of which the best head for that makes the predecessor", share_of(told_on(before[backward])),
                    Unit::percent};
  const Asked asked = ask_ordinals(specimen);
  if (asked.prompts.empty()) {
    result.sentence = "The tokenizer has too few ordinal words of one token in a row.";
    return result;
  }
  const std::vector<double> whole = asked.margins(specimen, {}),
                            loss = differences(asked.margins(specimen, result.heads), whole);
  const std::vector<double> other =
      differences(asked.margins(specimen, others_like(result.heads, specimen.config(), 1)), whole);
  result.further = {{"margin of the next word over the one after it, when counting", heads::estimate(whole)},
                    {"what it loses without the head", heads::estimate(loss)},
                    {"without another of its layer", heads::estimate(other)}};
  result.verdict = verdict_on(result.ours.value, result.control.value, 0.5);
  if (result.verdict == Verdict::comes_out && heads::estimate(differences(other, loss)).low <= 0) {
    result.verdict = Verdict::partly;
  }
  result.sentence = "Head " + to_string(id) + " makes the successor of " + text_of(result.ours) +
                    " of the ordinal words; no head makes the predecessor of more than " + text_of(result.control) +
                    "; without it counting loses " + text_of(result.further[1]) + " of a margin of " +
                    text_of(result.further[0]) + ".";
  return result;
}

}  // namespace polyhead::replicate
