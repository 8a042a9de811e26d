#include <algorithm>

#include "heads/circuits.h"
#include "heads/importance.h"
#include "replicate/experiments.h"
#include "replicate/words.h"

namespace polyhead::replicate {
namespace {

constexpr double kLooks = 0.3, kCopies = 0.8;
constexpr std::int64_t kAmong = 5;  // the highest logits
constexpr std::size_t kMost = 5, kDraws = 5;

// Slots of the probe: at the last token of each prompt.
enum NameSlot : int { kRight, kWrong, kAgainWrong };

heads::Probe probe_of(const Asked& asked) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (const Prompt& prompt : asked.prompts) sequences.push_back(prompt.tokens);
  heads::Probe probe;
  probe.tokens = rows_of(sequences);
  const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
  probe.separators = Tensor::zeros({B, T}, DType::boolean);
  probe.targets = Tensor::empty({B, T, 4}, DType::i32);
  std::fill_n(probe.targets.as<std::int32_t>(), B * T * 4, -1);
  probe.lengths = Tensor::empty({B}, DType::i32);
  for (std::int64_t b = 0; b < B; ++b) {
    const Prompt& prompt = asked.prompts[static_cast<std::size_t>(b)];
    const std::int64_t length = std::ssize(prompt.tokens);
    probe.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(length);
    std::int32_t* slots = probe.targets.as<std::int32_t>() + (b * T + length - 1) * 4;
    slots[kRight] = static_cast<std::int32_t>(prompt.at_right);
    slots[kWrong] = static_cast<std::int32_t>(prompt.at_wrong);
    slots[kAgainWrong] = static_cast<std::int32_t>(prompt.again_at_wrong);
  }
  return probe;
}

// The share of names that each head puts among the highest logits when it looks at them.
std::vector<double> name_copying(Specimen& specimen) {
  const std::vector<std::int32_t> names = names_of(specimen);
  std::vector<double> shares;
  heads::each_ov(specimen.context(), specimen.model(), names, [&](std::size_t, const ConstTensorView& logits) {
    double hits = 0;
    for (std::size_t n = 0; n < names.size(); ++n) {
      const float* row = logits.as<float>() + static_cast<std::int64_t>(n) * specimen.config().vocabulary;
      const float own = row[names[n]];
      hits +=
          std::count_if(row, row + specimen.config().vocabulary, [&](float other) { return other >= own; }) <= kAmong;
    }
    shares.push_back(hits / static_cast<double>(names.size()));
  });
  return shares;
}

}  // namespace

Result name_movers(Specimen& specimen) {
  const Asked asked = ask_names(specimen);
  Result result;
  if (asked.prompts.empty()) {
    result.sentence = "The tokenizer has too few names of one token.";
    return result;
  }
  std::vector<heads::Probe> probes;
  probes.push_back(probe_of(asked));
  const heads::Survey survey = heads::survey(specimen.context(), specimen.model(), probes);
  const std::vector<double> copies = name_copying(specimen);
  const auto weight = [&](std::size_t head, NameSlot slot) {
    return by_sequence(survey.heads[head], static_cast<heads::Slot>(slot));
  };
  std::vector<std::pair<double, std::size_t>> movers;
  for (std::size_t n = 0; n < survey.heads.size(); ++n) {
    const double looks = mean_of(chosen_on(weight(n, kRight)));
    if (looks >= kLooks && copies[n] >= kCopies) movers.emplace_back(-looks, n);
  }
  std::sort(movers.begin(), movers.end());
  movers.resize(std::min(movers.size(), kMost));
  const std::vector<double> whole = asked.margins(specimen, {});
  const Measure margin{"logit of the right name above the other's", heads::estimate(whole)};
  if (movers.empty()) {
    result.verdict = Verdict::not_here;
    result.further = {margin};
    result.sentence = "No head that gives 0.3 of the last token's weight to the right name also copies 80 % of names.";
    return result;
  }
  std::vector<double> right, wrong;
  for (const auto& [score, n] : movers) {
    result.heads.push_back(survey.heads[n].id);
    const std::vector<double> to_right = told_on(weight(n, kRight)), once = told_on(weight(n, kWrong)),
                              again = told_on(weight(n, kAgainWrong));
    right.resize(to_right.size());
    wrong.resize(to_right.size());
    for (std::size_t k = 0; k < right.size(); ++k) {
      right[k] += to_right[k] / static_cast<double>(movers.size());
      wrong[k] += (once[k] + again[k]) / static_cast<double>(movers.size());
    }
  }
  result.ours = {"weight of the last token on the right name, mean of the name movers", heads::estimate(right)};
  result.control = {"on the other name, at both of its places", heads::estimate(wrong)};
  const std::vector<double> lost = differences(asked.margins(specimen, result.heads), whole);
  std::vector<double> others(lost.size());
  for (std::size_t draw = 1; draw <= kDraws; ++draw) {
    const auto instead = others_like(result.heads, specimen.config(), draw);
    const std::vector<double> one = differences(asked.margins(specimen, instead), whole);
    for (std::size_t n = 0; n < others.size(); ++n) others[n] += one[n] / kDraws;
  }
  std::vector<double> all_copies = copies;
  result.further = {margin,
                    {"what it loses without the name movers", heads::estimate(lost)},
                    {"without as many others of their layers", heads::estimate(others)},
                    {"names that any head copies, mean of all heads", heads::estimate(all_copies), Unit::percent}};
  const bool matters = heads::estimate(differences(others, lost)).low > 0;
  result.verdict = verdict_on(result.ours.value, result.control.value, kLooks);
  if (!matters) result.verdict = result.verdict == Verdict::comes_out ? Verdict::partly : Verdict::not_here;
  result.sentence = std::to_string(movers.size()) + " heads that copy names give " + text_of(result.ours) +
                    " of the last token's weight to the right one and " + text_of(result.control) +
                    " to the other; without them the margin of " + text_of(margin) + " loses " +
                    text_of(result.further[1]) + ", without others of their layers " + text_of(result.further[2]) + ".";
  return result;
}

}  // namespace polyhead::replicate
