#include <algorithm>
#include <numeric>

#include "heads/importance.h"
#include "heads/sinks.h"
#include "replicate/experiments.h"
#include "text/marks.h"

namespace polyhead::replicate {
namespace {

using Values = std::function<std::vector<double>(const heads::HeadSurvey&)>;

constexpr double kLooks = 0.4;     // of a head's weight: where the field says that it looks there
constexpr std::size_t kDraws = 5;  // of other heads to take out

Values weight_on(heads::Slot slot) {
  return [slot](const heads::HeadSurvey& head) { return by_sequence(head, slot); };
}
Values weight_on(Statistic value, Statistic count) {
  return [=](const heads::HeadSurvey& head) { return by_sequence(head, value, count); };
}

// The head with the highest number on the even sequences, and that number on the odd ones.
struct Best {
  HeadId id;
  Estimate value;
};
Best best_of(const heads::Survey& survey, const Values& values) {
  const heads::HeadSurvey* best = &survey.heads.at(0);
  double most = -1;
  for (const heads::HeadSurvey& head : survey.heads) {
    const double mean = mean_of(chosen_on(values(head)));
    if (mean > most) most = mean, best = &head;
  }
  return {best->id, heads::estimate(told_on(values(*best)))};
}

// Those that look there on the even sequences, the one that does so most first.
std::vector<HeadId> those_above(const heads::Survey& survey, const Values& values, double limit) {
  std::vector<std::pair<double, HeadId>> found;
  for (const heads::HeadSurvey& head : survey.heads) {
    const double mean = mean_of(chosen_on(values(head)));
    if (mean >= limit) found.emplace_back(-mean, head.id);
  }
  std::sort(found.begin(), found.end());
  std::vector<HeadId> ids;
  for (const auto& [score, id] : found) ids.push_back(id);
  return ids;
}

// Whether some head looks at such keys, and an untrained model's does not; then what the heads that do are worth.
Result looking(Specimen& specimen, const heads::Survey& trained, const heads::Survey& untrained, const Values& values,
               const std::string& where, const std::vector<Measure>& look_alike = {}) {
  const Best best = best_of(trained, values), control = best_of(untrained, values);
  Result result;
  result.ours = {"weight of head " + to_string(best.id) + " on " + where, best.value};
  result.control = {"the same of the best head of an untrained model", control.value};
  result.verdict = verdict_on(best.value, control.value, kLooks);
  result.heads = those_above(trained, values, kLooks);
  result.further = look_alike;
  result.sentence = "Head " + to_string(best.id) + " gives " + text_of(result.ours) + " of its weight to " + where +
                    ", the best of an untrained model " + text_of(result.control) + "; " +
                    std::to_string(result.heads.size()) + " of " + std::to_string(trained.heads.size()) +
                    " heads give 0.4 or more";
  if (specimen.reads_on() && !result.heads.empty()) {
    const bool matters = add_knock_out(specimen, result.heads, result);
    if (!matters && result.verdict == Verdict::comes_out) result.verdict = Verdict::partly;
    result.sentence += matters ? "; without them the loss on copies rises more than without others of their layers"
                               : "; taking them out does no more harm than taking out others of their layers";
  }
  result.sentence += ".";
  return result;
}

// The weight of every head in a sequence on keys of a kind, by layer: [layers][sequences].
std::vector<std::vector<double>> by_layer(const heads::Survey& survey, const Values& values) {
  std::vector<std::vector<double>> sums;
  std::vector<double> counts;
  for (const heads::HeadSurvey& head : survey.heads) {
    const std::vector<double> of_head = values(head);
    if (sums.size() <= head.id.layer) sums.resize(head.id.layer + 1), counts.resize(head.id.layer + 1);
    sums[head.id.layer].resize(of_head.size());
    for (std::size_t n = 0; n < of_head.size(); ++n) sums[head.id.layer][n] += of_head[n];
    ++counts[head.id.layer];
  }
  for (std::size_t layer = 0; layer < sums.size(); ++layer) {
    for (double& value : sums[layer]) value /= counts[layer];
  }
  return sums;
}

std::vector<double> mean_over(const std::vector<std::vector<double>>& layers, std::size_t first, std::size_t last) {
  std::vector<double> means(layers.at(first).size());
  for (std::size_t layer = first; layer < last; ++layer) {
    for (std::size_t n = 0; n < means.size(); ++n) means[n] += layers[layer][n] / static_cast<double>(last - first);
  }
  return means;
}

std::vector<Tensor> tokens_of(const heads::Probes& probes) {
  std::vector<Tensor> all;
  for (const heads::Probe& probe : probes.plain) {
    all.push_back(Tensor::empty(probe.tokens.shape(), DType::i32));
    std::copy_n(probe.tokens.as<std::int32_t>(), probe.tokens.view().count(), all.back().as<std::int32_t>());
  }
  return all;
}

}  // namespace

bool add_knock_out(Specimen& specimen, const std::vector<HeadId>& heads, Result& to) {
  const std::vector<double> whole = specimen.losses(specimen.repeats(), {}),
                            rise = differences(whole, specimen.losses(specimen.repeats(), heads));
  std::vector<double> others(rise.size());
  for (std::size_t draw = 1; draw <= kDraws; ++draw) {
    const std::vector<HeadId> instead = others_like(heads, specimen.config(), draw);
    const std::vector<double> more = differences(whole, specimen.losses(specimen.repeats(), instead));
    for (std::size_t n = 0; n < others.size(); ++n) others[n] += more[n] / kDraws;
  }
  to.further.push_back({"loss on copies, whole", heads::estimate(whole), Unit::nats});
  to.further.push_back({"rise of it without these heads", heads::estimate(rise), Unit::nats});
  to.further.push_back({"without as many others of their layers", heads::estimate(others), Unit::nats});
  return heads::estimate(differences(others, rise)).low > 0;
}

Result previous_token(Specimen& specimen) {
  return looking(specimen, specimen.on_texts(), specimen.untrained_on_texts(),
                 weight_on(Statistic::previous_weight, Statistic::previous_rows), "the token before");
}

Result induction(Specimen& specimen) {
  const Best off = best_of(specimen.on_repeats(), weight_on(heads::kOffByOne));
  return looking(specimen, specimen.on_repeats(), specimen.untrained_on_repeats(), weight_on(heads::kInduction),
                 "the token after the earlier occurrence",
                 {{"the most that any head gives to the token one further", off.value}});
}

Result duplicate(Specimen& specimen) {
  return looking(specimen, specimen.on_repeats(), specimen.untrained_on_repeats(), weight_on(heads::kDuplicate),
                 "the earlier occurrence of the same token");
}

Result sinks(Specimen& specimen) {
  const std::vector<Tensor> windows = tokens_of(
      heads::standard_probes(specimen.tokenizer(), specimen.config(), heads::standard_texts(),
                             {.length = heads::kSinkTokens, .windows = 2 * specimen.effort().windows, .repeats = 1}));
  model::Transformer untrained(specimen.config(), 2, specimen.model().dtype(), specimen.model().allocator(),
                               specimen.context().threads(), model::Drawn::uniform);
  Result result;
  result.ours = {"heads whose mean weight on the first of 64 tokens is above 0.3",
                 heads::sink_share(specimen.context(), specimen.model(), windows), Unit::percent};
  result.control = {"the same of an untrained model", heads::sink_share(specimen.context(), untrained, windows),
                    Unit::percent};
  result.verdict = verdict_on(result.ours.value, result.control.value, 0.5);
  const bool some = result.ours.value.low > result.control.value.high;
  if (result.verdict == Verdict::not_here && some) result.verdict = Verdict::partly;
  result.sentence = text_of(result.ours) + " of the heads rest on the first token, " + text_of(result.control) +
                    " in an untrained model.";
  return result;
}

Result on_separators(Specimen& specimen) {
  const std::vector<text::Id> special = text::special_of(specimen.tokenizer());
  std::vector<heads::Probe> windows;
  for (const Examples& some : specimen.texts()) windows.push_back(heads::make_probe(some.tokens, {}, special, 1));
  const Values weight = weight_on(Statistic::marked_weight, Statistic::rows);
  const auto of = [&](const model::Transformer& model) {
    return by_layer(heads::survey(specimen.context(), model, windows), weight);
  };
  const auto trained = of(specimen.model());
  const auto untrained = of(model::Transformer(specimen.config(), 1));
  const std::size_t L = trained.size(), middle = L / 2;
  Result result;
  result.ours = {"weight on [SEP], mean of the heads of the upper half of the layers",
                 heads::estimate(mean_over(trained, middle, L)), Unit::percent};
  result.control = {"the same of an untrained model", heads::estimate(mean_over(untrained, middle, L)), Unit::percent};
  const auto on_first = by_layer(specimen.on_texts(), weight_on(Statistic::first_weight, Statistic::rows));
  result.further = {
      {"in the lower half", heads::estimate(mean_over(trained, 0, middle)), Unit::percent},
      {"on the first token, in the upper half", heads::estimate(mean_over(on_first, middle, L)), Unit::percent}};
  result.verdict = verdict_on(result.ours.value, result.control.value, 0.5);
  result.sentence = "Heads of the upper half of the layers give " + text_of(result.ours) +
                    " of their weight to the special token at the end, those of the lower half " +
                    text_of(result.further[0]) + ", those of an untrained model " + text_of(result.control) + ".";
  return result;
}

Result broad_at_first(Specimen& specimen) {
  const Values entropy = weight_on(Statistic::normalised_entropy, Statistic::normalised_rows);
  const auto layers = by_layer(specimen.on_texts(), entropy);
  const std::vector<double> first = layers.at(0), later = mean_over(layers, 1, layers.size());
  Result result;
  result.ours = {"entropy relative to equal weights, mean of the first layer's heads", heads::estimate(first)};
  result.control = {"of the heads above it", heads::estimate(later)};
  const Estimate above = heads::estimate(differences(later, first));
  result.further = {{"first layer above the others, in the same windows", above}};
  result.verdict = above.low > 0 ? Verdict::comes_out : above.high < 0 ? Verdict::not_here : Verdict::cannot_tell;
  result.sentence = "The first layer's heads have a relative entropy of " + text_of(result.ours) +
                    ", those above it of " + text_of(result.control) + ".";
  return result;
}

Result neighbours(Specimen& specimen) {
  constexpr double kHalf = 0.5;
  const Values before = weight_on(Statistic::previous_weight, Statistic::previous_rows),
               after = weight_on(Statistic::next_weight, Statistic::next_rows);
  const auto count = [&](const heads::Survey& survey, std::vector<HeadId>* ids) {
    // By sequence, so that the count has an interval.
    std::vector<double> counts;
    for (const heads::HeadSurvey& head : survey.heads) {
      const std::vector<double> b = before(head), a = after(head);
      counts.resize(b.size());
      for (std::size_t n = 0; n < b.size(); ++n) counts[n] += b[n] > kHalf || a[n] > kHalf;
      if (ids != nullptr && (mean_of(b) > kHalf || mean_of(a) > kHalf)) ids->push_back(head.id);
    }
    return heads::estimate(counts);
  };
  Result result;
  result.ours = {"heads that give more than half of their weight to the token before or after",
                 count(specimen.on_texts(), &result.heads)};
  result.control = {"the same of an untrained model", count(specimen.untrained_on_texts(), nullptr)};
  result.verdict = verdict_on(result.ours.value, result.control.value, 1);
  result.sentence = std::to_string(result.heads.size()) + " of " + std::to_string(specimen.config().head_count()) +
                    " heads give more than half of their weight to a neighbour; by window " + text_of(result.ours) +
                    ", in an untrained model " + text_of(result.control) + ".";
  return result;
}

Result one_offset(Specimen& specimen) {
  constexpr double kRows = 0.9, kSure = 0.8;
  const auto count = [&](const heads::Survey& survey, std::vector<HeadId>* ids, std::size_t* sure) {
    std::vector<double> counts;
    for (const heads::HeadSurvey& head : survey.heads) {
      const auto [offset, share] = heads::commonest_offset(head, survey.chance);
      counts.resize(head.sequences.size());
      for (std::size_t n = 0; n < counts.size(); ++n) {
        const auto& in = head.sequences[n].offsets;
        std::int64_t all = 0;
        for (const auto& [at, rows] : in) all += rows;
        const auto found = in.find(offset);
        counts[n] += found != in.end() && static_cast<double>(found->second) >= kRows * static_cast<double>(all);
      }
      if (ids == nullptr || share < kRows) continue;
      ids->push_back(head.id);
      *sure += head.mean(Statistic::max_weight, Statistic::rows) > kSure;
    }
    return heads::estimate(counts);
  };
  Result result;
  std::size_t sure = 0;
  result.ours = {"heads whose largest weight lies at one offset in 90 % of the rows",
                 count(specimen.on_texts(), &result.heads, &sure)};
  result.control = {"the same of an untrained model", count(specimen.untrained_on_texts(), nullptr, nullptr)};
  result.verdict = verdict_on(result.ours.value, result.control.value, 1);
  if (result.verdict == Verdict::comes_out && sure < result.heads.size()) result.verdict = Verdict::partly;
  result.sentence = std::to_string(result.heads.size()) + (result.heads.size() == 1 ? " head looks" : " heads look") +
                    " at one offset in 90 % of the rows or more, " + std::to_string(sure) +
                    " of them with a mean largest weight above 0.8; an untrained model has " + text_of(result.control) +
                    ".";
  return result;
}

}  // namespace polyhead::replicate
