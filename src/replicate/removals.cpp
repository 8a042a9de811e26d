#include <algorithm>
#include <cmath>

#include "core/draws.h"
#include "heads/importance.h"
#include "heads/intervals.h"
#include "replicate/experiments.h"

namespace polyhead::replicate {
namespace {

constexpr std::uint32_t kDomain = 0x72656d6fu;  // separate from other users of a seed

// Every second sequence.
std::vector<Examples> half_of(const std::vector<Examples>& all, std::int64_t first) {
  std::vector<Examples> half;
  std::int64_t number = 0;
  for (const Examples& some : all) {
    const std::int64_t B = some.tokens.shape()[0], T = some.tokens.shape()[1];
    std::vector<std::int64_t> rows;
    for (std::int64_t b = 0; b < B; ++b, ++number) {
      if (number % 2 == first) rows.push_back(b);
    }
    if (rows.empty()) continue;
    Examples& to = half.emplace_back(Examples{Tensor::empty({std::ssize(rows), T}, DType::i32),
                                              Tensor::empty({std::ssize(rows), T}, DType::i32), Tensor()});
    for (std::size_t n = 0; n < rows.size(); ++n) {
      const auto at = static_cast<std::int64_t>(n) * T;
      std::copy_n(some.tokens.as<std::int32_t>() + rows[n] * T, T, to.tokens.as<std::int32_t>() + at);
      std::copy_n(some.targets.as<std::int32_t>() + rows[n] * T, T, to.targets.as<std::int32_t>() + at);
    }
  }
  return half;
}

std::string of_heads(std::size_t some, std::size_t all) {
  return std::to_string(some) + " of " + std::to_string(all) + " heads";
}

// The share, and its interval for so many draws (Wilson's).
Estimate share_of(std::size_t some, std::size_t all) {
  constexpr double z = 1.96;
  const auto n = static_cast<double>(all);
  const double p = static_cast<double>(some) / n, middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {p, middle - half, middle + half};
}

}  // namespace

Result idle_heads(Specimen& specimen) {
  const std::vector<HeadImportance>& heads = specimen.importance();
  std::int64_t sequences = 0;
  for (const Examples& some : specimen.texts()) sequences += some.tokens.shape()[0];
  const std::vector<bool> found = heads::damage_findings(heads, sequences);
  std::vector<double> widths;
  std::size_t harmful = 0;
  for (std::size_t n = 0; n < heads.size(); ++n) {
    widths.push_back((heads[n].zero.high - heads[n].zero.low) / 2);
    harmful += found[n] && heads[n].zero.mean > 0;
  }
  const auto count = static_cast<std::size_t>(std::count(found.begin(), found.end(), true));
  std::nth_element(widths.begin(), widths.begin() + std::ssize(widths) / 2, widths.end());
  const double width = widths[widths.size() / 2];
  Result result;
  result.ours = {"heads whose removal changes the loss, of those tried", share_of(count, heads.size()), Unit::percent};
  result.control = {
      "half of the median interval: less could not be told from nothing", {width, width, width}, Unit::nats};
  result.further = {
      {"of them, those whose removal does harm", share_of(harmful, std::max<std::size_t>(count, 1)), Unit::percent}};
  result.verdict = result.ours.value.high < 0.5  ? Verdict::comes_out
                   : result.ours.value.low > 0.5 ? Verdict::not_here
                                                 : Verdict::cannot_tell;
  result.sentence = "Taken out alone, " + of_heads(count, heads.size()) +
                    " change the loss by more than chance would, seeing how many were tried; changes below " +
                    text_of(result.control) + " could not be seen.";
  return result;
}

Result gradient_and_damage(Specimen& specimen) {
  const std::vector<HeadImportance>& heads = specimen.importance();
  std::vector<double> gradient, damage;
  for (const HeadImportance& head : heads) {
    gradient.push_back(head.normalised);
    damage.push_back(head.zero.mean);
  }
  const auto resampled = [&](bool matched) {
    std::vector<double> values;
    Draws draws(matched ? 2 : 3, 0, 0, kDomain);
    for (int n = 0; n < 999; ++n) {
      std::vector<double> a, b;
      for (std::size_t k = 0; k < gradient.size(); ++k) {
        const auto one = static_cast<std::size_t>(draws.below(std::ssize(gradient)));
        a.push_back(gradient[one]);
        b.push_back(damage[matched ? one : static_cast<std::size_t>(draws.below(std::ssize(gradient)))]);
      }
      values.push_back(heads::rank_correlation(a, b));
    }
    return heads::interval_of(values);
  };
  const heads::Interval ours = resampled(true), chance = resampled(false);
  Result result;
  result.ours = {"rank correlation of gradient and damage, over heads",
                 {heads::rank_correlation(gradient, damage), ours.low, ours.high}};
  result.control = {"of gradients and damages of different heads", {0, chance.low, chance.high}};
  result.verdict = ours.low > 0.5            ? Verdict::comes_out
                   : ours.high < chance.high ? Verdict::not_here
                   : ours.low > chance.high  ? Verdict::partly
                                             : Verdict::cannot_tell;
  result.sentence = "Over " + std::to_string(heads.size()) + " heads the rank correlation is " + text_of(result.ours) +
                    "; heads paired at random give " + text_of(result.control) + ".";
  return result;
}

Result pruning(Specimen& specimen) {
  constexpr std::size_t kRandom = 5;
  constexpr double kNoticed = 0.05;  // nats
  const std::vector<Examples> ranking = half_of(specimen.texts(), 0), judging = half_of(specimen.texts(), 1);
  std::vector<HeadImportance> order = heads::gradient_importance(specimen.context(), specimen.model(), ranking);
  std::stable_sort(order.begin(), order.end(),
                   [](const HeadImportance& a, const HeadImportance& b) { return a.normalised < b.normalised; });
  std::vector<HeadId> ranked;
  for (const HeadImportance& head : order) ranked.push_back(head.id);
  const std::vector<double> whole = specimen.losses(judging, {});
  const auto rise = [&](const std::vector<HeadId>& from, double share) {
    const auto count = std::lround(share * static_cast<double>(from.size()));
    return differences(whole, specimen.losses(judging, {from.begin(), from.begin() + count}));
  };
  const auto random_rise = [&](double share) {
    std::vector<double> mean(whole.size());
    for (std::size_t draw = 0; draw < kRandom; ++draw) {
      std::vector<HeadId> shuffled = model::all_heads(specimen.config());
      Draws(10 + draw, 0, 0, kDomain).shuffle(shuffled);
      const std::vector<double> one = rise(shuffled, share);
      for (std::size_t n = 0; n < mean.size(); ++n) mean[n] += one[n] / kRandom;
    }
    return mean;
  };
  const std::vector<double> ours = rise(ranked, 0.2), random = random_rise(0.2);
  Result result;
  result.ours = {"rise of the loss without the fifth of the heads with the least gradients", heads::estimate(ours),
                 Unit::nats};
  result.control = {"without a random fifth, five draws", heads::estimate(random), Unit::nats};
  const Estimate saved = heads::estimate(differences(ours, random));
  result.further = {{"random above gradient, in the same windows", saved, Unit::nats},
                    {"without a tenth, by gradient", heads::estimate(rise(ranked, 0.1)), Unit::nats},
                    {"without two fifths, by gradient", heads::estimate(rise(ranked, 0.4)), Unit::nats}};
  const bool free = result.ours.value.high < kNoticed;
  result.verdict = free && saved.low > 0              ? Verdict::comes_out
                   : free || saved.low > 0            ? Verdict::partly
                   : result.ours.value.low > kNoticed ? Verdict::not_here
                                                      : Verdict::cannot_tell;
  result.sentence = "Without the fifth of the heads with the least gradients the loss rises by " +
                    text_of(result.ours) + ", without a random fifth by " + text_of(result.control) +
                    "; what is not noticed is a rise below 0.05.";
  return result;
}

}  // namespace polyhead::replicate
