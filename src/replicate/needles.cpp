#include <algorithm>
#include <array>
#include <cmath>

#include "core/draws.h"
#include "heads/importance.h"
#include "heads/intervals.h"
#include "replicate/experiments.h"

namespace polyhead::replicate {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::uint32_t kDomain = 0x6e656564u;  // separate from other users of a seed
constexpr double kRetrieves = 0.1;              // of the needle's tokens, as Wu et al. have it
constexpr std::size_t kDraws = 5;
constexpr std::int64_t kAround = 4;  // tokens before the text and after the sentence, or so
constexpr const char *kAt = "retrieval", *kBehind = "one further";

constexpr std::array kKeepers{"Arlen", "Torvik", "Maresh", "Oldway", "Penrith", "Lindos"};
constexpr std::array kColours{"green", "yellow", "silver", "purple", "orange", "white", "golden", "brown"};
constexpr std::array kThings{"key", "map", "clock", "lamp", "ring", "coat", "mirror", "spoon"};
constexpr std::array kPlaces{"bridge", "chapel", "oven", "library", "well", "stairs", "barn", "theatre"};

// A long text in which a sentence is hidden, a question about it and the answer, a part of the sentence.
struct Hidden {
  Tokens tokens;
  std::int64_t answer = 0, needle = 0;  // where the answer begins, and the same words in the sentence
  std::int64_t length = 0;              // of the answer
};

struct Haystack {
  Tokens filler;
  std::int64_t most = 0;  // tokens that the model sees at once
};

Haystack haystack_of(const Specimen& specimen) {
  Haystack made{{}, specimen.config().context};
  for (const model::LayerHeads& layer : specimen.config().layers) {
    if (layer.window > 0) made.most = std::min(made.most, layer.window);
  }
  for (const heads::ProbeText& text : heads::standard_texts()) {
    for (const text::Token& token : specimen.tokenizer().encode(text.text, false)) made.filler.push_back(token.id);
  }
  return made;
}

Hidden hide(const Specimen& specimen, const Haystack& hay, std::int64_t length, double depth, Draws& draws) {
  const auto one_of = [&](const auto& words) {
    return std::string(words[static_cast<std::size_t>(draws.below(std::ssize(words)))]);
  };
  const std::string keeper = one_of(kKeepers), colour = one_of(kColours), thing = one_of(kThings),
                    place = one_of(kPlaces);
  const auto tokens_of = [&](const std::string& text) {
    Tokens tokens;
    for (const text::Token& token : specimen.tokenizer().encode(text, false)) tokens.push_back(token.id);
    return tokens;
  };
  const Tokens before = tokens_of("\nThe keeper of " + keeper + " hides the"),
               answer = tokens_of(" " + colour + " " + thing + " under the " + place),
               question = tokens_of("\nQuestion: What does the keeper of " + keeper +
                                    " hide, and where?\nAnswer: The keeper of " + keeper + " hides the");
  const auto room = std::clamp<std::int64_t>(
      length - std::ssize(before) - 2 * std::ssize(answer) - std::ssize(question) - kAround, 0, std::ssize(hay.filler));
  const auto first = static_cast<std::int64_t>(depth * static_cast<double>(room));
  Hidden made{specimen.tokenizer().beginning(), 0, 0, std::ssize(answer)};
  const auto add = [&](auto begin, auto end) { made.tokens.insert(made.tokens.end(), begin, end); };
  add(hay.filler.begin(), hay.filler.begin() + first);
  add(before.begin(), before.end());
  made.needle = std::ssize(made.tokens);
  add(answer.begin(), answer.end());
  const Tokens stop = tokens_of(".\n");
  add(stop.begin(), stop.end());
  add(hay.filler.begin() + first, hay.filler.begin() + room);
  add(question.begin(), question.end());
  made.answer = std::ssize(made.tokens);
  add(answer.begin(), answer.end());
  return made;
}

// Hidden sentences of one length of text: as a probe whose relations are the steps of the answer that the model gets
// right by itself.
struct Batch {
  std::vector<Hidden> hidden;
  Tensor tokens;
  std::vector<Specimen::Row> steps;   // that predict the answer's tokens
  std::vector<std::int32_t> answers;  // those tokens
};

Batch batch_of(std::vector<Hidden> hidden) {
  Batch made{std::move(hidden), {}, {}, {}};
  std::vector<Tokens> sequences;
  for (const Hidden& one : made.hidden) {
    const std::int64_t b = std::ssize(sequences);
    for (std::int64_t n = 0; n < one.length; ++n) {
      made.steps.push_back({b, one.answer + n - 1});
      made.answers.push_back(one.tokens[static_cast<std::size_t>(one.answer + n)]);
    }
    sequences.push_back(one.tokens);
  }
  made.tokens = rows_of(sequences);
  return made;
}

// The loss of every hidden sentence's answer; and which of its steps are right.
std::vector<double> answer_losses(Specimen& specimen, const Batch& batch, const std::vector<HeadId>& without,
                                  std::vector<bool>* right = nullptr) {
  const Tensor logits = specimen.logits_at(batch.tokens, batch.steps, without);
  const std::int64_t V = specimen.config().vocabulary;
  std::vector<double> losses(batch.hidden.size());
  for (std::size_t n = 0; n < batch.steps.size(); ++n) {
    const float* row = logits.as<float>() + static_cast<std::int64_t>(n) * V;
    const float* top = std::max_element(row, row + V);
    double sum = 0;
    for (std::int64_t v = 0; v < V; ++v) sum += std::exp(static_cast<double>(row[v] - *top));
    const auto b = static_cast<std::size_t>(batch.steps[n].b);
    losses[b] += (std::log(sum) - static_cast<double>(row[batch.answers[n]] - *top)) /
                 static_cast<double>(batch.hidden[b].length);
    if (right != nullptr) right->push_back(top - row == batch.answers[n]);
  }
  return losses;
}

heads::Probe probe_of(const Batch& batch, const std::vector<bool>& right) {
  const std::int64_t B = batch.tokens.shape()[0], T = batch.tokens.shape()[1];
  Tensor lengths = Tensor::empty({B}, DType::i32);
  for (std::int64_t b = 0; b < B; ++b) {
    lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(batch.hidden[static_cast<std::size_t>(b)].tokens.size());
  }
  heads::Probe probe;
  probe.tokens = Tensor::empty({B, T}, DType::i32);
  std::copy_n(batch.tokens.as<std::int32_t>(), B * T, probe.tokens.as<std::int32_t>());
  probe.lengths = std::move(lengths);
  probe.separators = Tensor::zeros({B, T}, DType::boolean);
  probe.targets = Tensor::empty({B, T, 4}, DType::i32);
  std::fill_n(probe.targets.as<std::int32_t>(), B * T * 4, -1);
  for (std::size_t n = 0; n < batch.steps.size(); ++n) {
    if (!right[n]) continue;
    const auto& [b, t] = batch.steps[n];
    const Hidden& hidden = batch.hidden[static_cast<std::size_t>(b)];
    const std::int64_t key = hidden.needle + t + 1 - hidden.answer;
    probe.relations.push_back({b, t, key, kAt});
    probe.relations.push_back({b, t, key + 1, kBehind});
  }
  return probe;
}

// The share of the answer's tokens that a head points at, by hidden sentence.
std::vector<double> pointed_at(const heads::HeadSurvey& head, const std::vector<Batch>& batches, const char* where) {
  std::vector<double> shares;
  std::size_t n = 0;
  for (const Batch& batch : batches) {
    for (const Hidden& hidden : batch.hidden) {
      const auto& relations = head.sequences.at(n++).relations;
      const auto found = relations.find(where);
      const std::int64_t hits = found == relations.end() ? 0 : found->second.hits;
      shares.push_back(static_cast<double>(hits) / static_cast<double>(hidden.length));
    }
  }
  return shares;
}

// How many heads retrieve, with an interval over hidden sentences.
Estimate retrieving(const std::vector<std::vector<double>>& of_heads) {
  const heads::Resamples resamples(std::vector<int>(of_heads.at(0).size()));
  const auto share = [&](const std::vector<std::int32_t>& counts) {
    double found = 0;
    for (const std::vector<double>& shares : of_heads) {
      double sum = 0, all = 0;
      for (std::size_t n = 0; n < shares.size(); ++n) sum += counts[n] * shares[n], all += counts[n];
      found += sum > kRetrieves * all;
    }
    return found / static_cast<double>(of_heads.size());
  };
  std::vector<double> values = resamples.each(share);
  const heads::Interval interval = heads::interval_of(values);
  return {share(std::vector<std::int32_t>(of_heads[0].size(), 1)), interval.low, interval.high};
}

}  // namespace

Result retrieval(Specimen& specimen) {
  const Haystack hay = haystack_of(specimen);
  constexpr std::array kDepths{0.1, 0.3, 0.5, 0.7, 0.9};
  const std::int64_t longest = std::min(hay.most, specimen.effort().longest);
  Draws draws(1, 0, 0, kDomain);
  Result result;
  const auto least = std::ssize(hide(specimen, hay, 0, 0, draws).tokens);
  if (longest / 4 < least + kAround) {
    result.sentence = "The model sees " + std::to_string(hay.most) + " tokens: too few to hide a sentence in.";
    return result;
  }
  std::vector<Batch> batches;
  std::vector<heads::Probe> probes;
  std::vector<double> whole;
  std::size_t right = 0, steps = 0;
  for (const std::int64_t length : {longest / 4, longest / 2, longest}) {
    std::vector<Hidden> hidden;
    for (std::int64_t n = 0; n < std::max<std::int64_t>(specimen.effort().needles / 3, 2); ++n) {
      hidden.push_back(hide(specimen, hay, length, kDepths[static_cast<std::size_t>(n) % kDepths.size()], draws));
    }
    batches.push_back(batch_of(std::move(hidden)));
    std::vector<bool> is_right;
    const std::vector<double> losses = answer_losses(specimen, batches.back(), {}, &is_right);
    whole.insert(whole.end(), losses.begin(), losses.end());
    probes.push_back(probe_of(batches.back(), is_right));
    right += static_cast<std::size_t>(std::count(is_right.begin(), is_right.end(), true));
    steps += is_right.size();
  }
  const heads::Survey survey = heads::survey(specimen.context(), specimen.model(), probes);
  std::vector<std::vector<double>> at, behind;
  std::vector<std::pair<double, HeadId>> found;
  for (const heads::HeadSurvey& head : survey.heads) {
    at.push_back(pointed_at(head, batches, kAt));
    behind.push_back(pointed_at(head, batches, kBehind));
    if (mean_of(at.back()) > kRetrieves) found.emplace_back(-mean_of(at.back()), head.id);
  }
  std::sort(found.begin(), found.end());
  for (const auto& [score, id] : found) result.heads.push_back(id);
  result.ours = {"heads that point at more than a tenth of the answer in the hidden sentence", retrieving(at),
                 Unit::percent};
  result.control = {"heads that point one token further", retrieving(behind), Unit::percent};
  const double share = static_cast<double>(right) / static_cast<double>(steps);
  result.further = {{"tokens of the answer that the model gets right by itself", {share, share, share}, Unit::percent},
                    {"loss of the answer", heads::estimate(whole), Unit::nats}};
  if (found.empty()) {
    result.verdict = share < kRetrieves ? Verdict::cannot_tell : Verdict::not_here;
    result.sentence = "No head points at a tenth of the hidden sentence; the model gets " + text_of(result.further[0]) +
                      " of the answer right.";
    return result;
  }
  const auto rise = [&](const std::vector<HeadId>& without) {
    std::vector<double> losses;
    for (const Batch& batch : batches) {
      const std::vector<double> some = answer_losses(specimen, batch, without);
      losses.insert(losses.end(), some.begin(), some.end());
    }
    return differences(whole, losses);
  };
  const std::vector<double> lost = rise(result.heads);
  std::vector<double> others(lost.size());
  for (std::size_t draw = 1; draw <= kDraws; ++draw) {
    const std::vector<double> one = rise(others_like(result.heads, specimen.config(), draw));
    for (std::size_t n = 0; n < others.size(); ++n) others[n] += one[n] / kDraws;
  }
  result.further.push_back({"rise of it without these heads", heads::estimate(lost), Unit::nats});
  result.further.push_back({"without as many others of their layers", heads::estimate(others), Unit::nats});
  const bool matters = heads::estimate(differences(others, lost)).low > 0;
  const bool few = result.ours.value.mean <= 0.1, told = result.ours.value.low > result.control.value.high;
  result.verdict = few && told && matters ? Verdict::comes_out : matters || told ? Verdict::partly : Verdict::not_here;
  result.sentence = text_of(result.ours) + " of the heads retrieve, " + text_of(result.control) +
                    " point one token further; without them the loss of the answer rises by " +
                    text_of(result.further[2]) + ", without others of their layers by " + text_of(result.further[3]) +
                    ".";
  return result;
}

}  // namespace polyhead::replicate
