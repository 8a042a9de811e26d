#include "cli/forecast.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "cli/arithmetic.h"
#include "heads/knockout.h"
#include "model/memory.h"
#include "train/parts.h"
#include "train/run.h"

namespace polyhead::cli {
namespace {

using Range = train::PartTree::Range;

constexpr double kBytes = 4;              // of a number
constexpr double kBackward = 2;           // FLOPs of a backward pass, by those of the pass
constexpr double kTextHead = 8;           // bytes by which ranks tell each other how long a text is
constexpr double kJob = 8, kScores = 32;  // bytes of a job's number, and of a sequence's scores
constexpr double kAnswer = 100e-6;        // at most: rank 0 looks for questions about jobs that often
constexpr double kPiece = 4e6;            // bytes of a gradient that ranks gather at once

double number(std::int64_t n) { return static_cast<double>(n); }

// FLOPs of a layer: of its matrices for every token, and of attention for every pair of tokens that it sees.
struct LayerFlops {
  double token = 0, pair = 0;
};

LayerFlops flops_of(const model::Config& config, const model::LayerHeads& heads) {
  Model layer{.name = {}, .title = {}, .width = config.width, .heads = 1, .head_dim = 1, .layers = 1, .tokens = 1};
  if (config.feed_forward != model::FeedForward::none) layer.ff = config.hidden;
  layer.gated_ff = is_gated(config.feed_forward);
  if (heads.heads > 0) {
    layer.heads = heads.heads;
    layer.kv_heads = heads.kv_heads;
    layer.head_dim = config.head_dim;
  }
  const Count counted = count(layer);
  LayerFlops flops{.token = number(counted.of("FFN").flops_last)};
  if (heads.heads == 0) return flops;
  flops.pair = number(counted.of("scores q.k").flops_last + counted.of("values p.v").flops_last);
  flops.token += number(counted.of("attention").flops_last) - flops.pair;
  return flops;
}

double pairs_of(const model::Config& config, double tokens) {
  return config.kind == model::Kind::gpt ? tokens * (tokens + 1) / 2 : tokens * tokens;
}

double layer_flops(const model::Config& config, const model::LayerHeads& heads, std::int64_t tokens) {
  const LayerFlops flops = flops_of(config, heads);
  return flops.token * number(tokens) + flops.pair * pairs_of(config, number(tokens));
}

// Of the logits of one sequence.
double output_flops(const model::Config& config, std::int64_t tokens) {
  const double each = 2 * number(config.width) * number(config.outputs());
  return config.kind == model::Kind::gpt ? each * number(tokens) : each;
}

// What is left of a sum when a part is taken away, but for rounding.
double beyond(double most, double even) { return most - even < 1e-9 * most ? 0 : most - even; }

double message(const Link& link, double bytes) { return link.latency + bytes / link.bandwidth; }

// Everybody hears from everybody.
double gathering(const Link& link, std::int64_t ranks, double bytes_of_all) {
  return ranks == 1 ? 0 : number(ranks - 1) * link.latency + bytes_of_all / link.bandwidth;
}

// ---- a step of training

// What ranks that share a pass give each other, forward and backward, as src/ops/shared_heads.h and the products do:
// how often, and how many numbers of so many sequences.
struct Gathered {
  double times = 0, numbers = 0;
};

Gathered gathered_in_pass(const model::Config& config, std::int64_t sequences, std::int64_t tokens) {
  const double rows = number(sequences * tokens), C = number(config.width);
  Gathered found;
  const auto add = [&](double of_rows, double columns) {
    ++found.times;
    found.numbers += of_rows * columns;
  };
  for (const model::LayerHeads& heads : config.layers) {
    const double inner = number(heads.heads * config.head_dim), kv = number(heads.kv_heads * config.head_dim);
    if (heads.heads > 0) {
      if (config.qk_norm) add(rows, inner + kv);
      for (const double columns : {inner, C, inner + 2 * kv, C}) add(rows, columns);
    }
    if (config.feed_forward == model::FeedForward::none) continue;
    const double hidden = number(config.hidden), up = is_gated(config.feed_forward) ? 2 * hidden : hidden;
    for (const double columns : {up, C, hidden, C}) add(rows, columns);
  }
  const double answers = config.kind == model::Kind::gpt ? rows : number(sequences);
  for (const double columns : {number(config.outputs()), C}) add(answers, columns);
  return found;
}

class Step {
 public:
  Step(const Workload& work, const Rates& rates, const Link& link, std::int64_t groups)
      : work_(work),
        link_(link),
        tree_(work.parts, groups),
        gradient_(kBytes * model::parameter_count(work.config)),
        sweep_(model::parameter_count(work.config) / rates.sums),
        sequence_((1 + kBackward) * forward_flops(work.config, 1, work.tokens) / rates.training / number(work.heads)) {
    for (const model::LayerHeads& heads : work.config.layers) {
      if (heads.heads == 0) continue;
      const double n = number(work.heads), kv_heads = number(heads.kv_heads);
      const double most = std::ceil(kv_heads / n) / kv_heads;
      const double attention = flops_of(work.config, heads).pair * pairs_of(work.config, number(work.tokens));
      lopsided_ += (1 + kBackward) * attention * beyond(most, 1 / n) / rates.training;
    }
  }

  // Of the parts that a group has: passes, and their gradients packed and added.
  double own(std::int64_t group) const {
    const auto [first, last] = tree_.parts_of(group);
    const double sweeps = work_.parts > 1 ? number(2 * (last - first) - 1) : 0;
    return number(sequences_of(group)) * sequence_ + sweeps * sweep_;
  }
  // Beyond that, for the rank that has most heads, which the others of the group wait for.
  double lopsided(std::int64_t group) const { return number(sequences_of(group)) * lopsided_; }
  // The messages between the ranks of a group: of its passes, and the rows of the gradient.
  double within(std::int64_t group) const {
    if (work_.heads == 1) return 0;
    const auto [first, last] = tree_.parts_of(group);
    const Gathered pass = gathered_in_pass(work_.config, sequences_of(group), work_.tokens);
    const double n = number(work_.heads), times = number(last - first) * pass.times + std::ceil(gradient_ / kPiece);
    return (n - 1) * (times * link_.latency + (kBytes * pass.numbers + gradient_) / n / link_.bandwidth);
  }
  // When the sum of these parts is there.
  double summed(const Range& range) const {
    if (tree_.is_one_ranks(range)) return own(tree_.owner(range.first));
    const Range left = train::PartTree::left(range), right = train::PartTree::right(range);
    const double both = std::max(summed(left), summed(right)) + sweep_;
    return sends(range) ? both + message(link_, gradient_) : both;
  }
  // Bytes that ranks send for it.
  double sent(const Range& range) const {
    if (tree_.is_one_ranks(range)) return 0;
    const double below = sent(train::PartTree::left(range)) + sent(train::PartTree::right(range));
    return below + (sends(range) ? gradient_ : 0);
  }
  Range all() const { return tree_.all(); }
  double gradient() const { return gradient_; }
  double sweep() const { return sweep_; }

 private:
  std::int64_t sequences_of(std::int64_t group) const {
    const auto [first, last] = tree_.parts_of(group);
    return work_.batch * last / work_.parts - work_.batch * first / work_.parts;
  }
  bool sends(const Range& range) const {
    return tree_.owner(range.first) != tree_.owner(train::PartTree::right(range).first);
  }

  const Workload& work_;
  const Link& link_;
  train::PartTree tree_;
  double gradient_, sweep_, sequence_, lopsided_ = 0;
};

}  // namespace

Rates rates_for(double flops, double bytes) {
  constexpr double kSum = 12, kStep = 36, kMerge = 20;  // bytes that a number is read and written by
  return {flops, flops, bytes / kSum, bytes / kStep, bytes / kMerge};
}

double forward_flops(const model::Config& config, std::int64_t sequences, std::int64_t tokens) {
  double flops = output_flops(config, tokens);
  for (const model::LayerHeads& heads : config.layers) flops += layer_flops(config, heads, tokens);
  return number(sequences) * flops;
}

// The sum goes to the first group, and from there to all, each rank to those with the same heads; ranks of a group
// complete it, and all take the optimiser's step; the losses and whether anybody wants to stop are gathered.
Forecast forecast_training(const Workload& work, const Rates& rates, const Link& link, std::int64_t ranks) {
  const std::int64_t groups = ranks / work.heads;
  const Step step(work, rates, link, groups);
  Forecast found{.ranks = ranks};
  double most = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    found.shared += step.own(group) / number(groups);
    most = std::max(most, step.own(group));
    found.uneven = std::max(found.uneven, step.lopsided(group));
    found.sending = std::max(found.sending, step.within(group));
  }
  found.uneven += beyond(most, found.shared);
  found.repeated = (work.parts > 1 ? step.sweep() : 0) + model::parameter_count(work.config) / rates.steps;
  const double losses = 8 * number(work.parts);
  if (ranks > 1) {
    found.sending += gathering(link, ranks, 0);
    found.bytes = number(ranks - 1) * kTextHead * number(ranks);
  }
  if (groups > 1) {
    found.sending += step.summed(step.all()) - most + std::ceil(std::log2(groups)) * message(link, step.gradient()) +
                     gathering(link, groups, losses);
    found.bytes += number(work.heads) * (step.sent(step.all()) +
                                         number(groups - 1) * (step.gradient() + losses + kTextHead * number(groups)));
  }
  if (work.heads > 1) {
    const double passes = kBytes * gathered_in_pass(work.config, work.batch, work.tokens).numbers;
    found.bytes += number(work.heads - 1) * (passes + number(groups) * step.gradient());
  }
  const train::RunMemory memory = train::memory_of(work.config, work.tokens, work.batch, work.parts, work.heads);
  found.memory = model::bytes_of(work.config, memory.copies, memory.step, memory.more);
  return found;
}

namespace {

// Of a causal sequence in halves (ops/ring.h), the rows that ranks send: keys go to every other rank with a query that
// sees them. `window`: how many tokens a query sees, 0 for all.
double rows_around(std::int64_t tokens, std::int64_t ranks, std::int64_t window) {
  struct Chunk {
    std::int64_t begin, end, rank;
  };
  std::vector<Chunk> chunks;
  std::int64_t begin = 0;
  for (std::int64_t n = 0; n < 2 * ranks; ++n) {
    const std::int64_t rank = n < ranks ? n : 2 * ranks - 1 - n;
    const std::int64_t rows = tokens * (rank + 1) / ranks - tokens * rank / ranks, half = rows / 2;
    chunks.push_back({begin, begin + (n < ranks ? rows - half : half), rank});
    begin = chunks.back().end;
  }
  double sent = 0;
  for (const Chunk& keys : chunks) {
    const auto sees = [&](const Chunk& queries) {
      return queries.begin < queries.end && keys.begin < queries.end &&
             (window == 0 || keys.end > queries.begin - window + 1);
    };
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Chunk &first = chunks[static_cast<std::size_t>(rank)],
                  &second = chunks[chunks.size() - 1 - static_cast<std::size_t>(rank)];
      if (rank != keys.rank && (sees(first) || sees(second))) sent += number(keys.end - keys.begin);
    }
  }
  return sent;
}

}  // namespace

// Every layer's keys and values go around, while ranks compute with the last ones; a causal sequence in halves. Every
// call begins with three texts from everybody.
Forecast forecast_prefill(const Workload& work, const Rates& rates, const Link& link, std::int64_t ranks) {
  const model::Config& config = work.config;
  const bool causal = config.kind == model::Kind::gpt;
  const double all = number(work.tokens), n = number(ranks), each = std::ceil(all / n), half = std::ceil(each / 2);
  const double pairs = !causal     ? n * each * each
                       : ranks > 1 ? half * (half + 1) + (2 * n - 1) * half * half
                                   : pairs_of(config, all);
  Forecast found{.ranks = ranks};
  double ring = 0;
  std::map<std::int64_t, double> rows_of_window;
  for (const model::LayerHeads& heads : config.layers) {
    const LayerFlops flops = flops_of(config, heads);
    const double inner = number(heads.heads * config.head_dim), shared = 2 * number(heads.kv_heads * config.head_dim);
    const double even = (flops.token * all + flops.pair * pairs_of(config, all)) / n / rates.forward;
    found.shared += even;
    found.uneven += beyond((flops.token * each + flops.pair * pairs) / rates.forward, even);
    if (ranks == 1 || heads.heads == 0) continue;
    found.repeated += (causal ? n + 0.5 : n) * each * inner / rates.merges;
    const auto [rows, is_new] = rows_of_window.try_emplace(heads.window);
    if (is_new) rows->second = causal ? rows_around(work.tokens, ranks, heads.window) : (n - 1) * all;
    const double bytes = kBytes * rows->second * shared, step = flops.pair * pairs / n / rates.forward;
    const double sent = (causal ? 4 : 2) * link.latency + bytes / n / (n - 1) / link.bandwidth;
    found.sending += (n - 1) * std::max(0.0, sent - step) + 3 * gathering(link, ranks, 0);
    found.bytes += bytes;
    // Keys and values that are here, that come and that go; merged outputs in double, two of which make a third.
    ring = std::max(ring, each * (kBytes * 3 * shared + 3 * 8 * inner));
  }
  found.repeated += output_flops(config, 1) / rates.forward;
  found.memory = model::bytes_of(config, 1, {.tokens = static_cast<std::int64_t>(each), .last_only = true}, ring);
  return found;
}

namespace {

// Ranks that take knock-outs in turn, each as soon as it is free.
class Takers {
 public:
  struct Taker {
    double at = 0, walked = 0, asked = 0;
    std::int64_t rank = 0;
    std::size_t layer = 0;
    friend bool operator>(const Taker& a, const Taker& b) { return a.at > b.at; }
  };

  Takers(const Link& link, std::int64_t ranks) : question_(2 * link.latency + kAnswer / 2) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) free_.push({.rank = rank});
  }

  // `walks`: seconds that every layer takes of whoever comes by for the first time.
  void take(std::size_t layer, double seconds, const std::vector<double>& walks) {
    Taker taker = free_.top();
    free_.pop();
    for (; taker.layer < layer; ++taker.layer) {
      taker.walked += walks[taker.layer];
      taker.at += walks[taker.layer];
    }
    taker.at += seconds;
    if (taker.rank > 0) {
      taker.at += question_;
      taker.asked += question_;
      ++elsewhere_;
    }
    total_ += seconds;
    if (taker.at > last_.at) last_ = taker;
    free_.push(taker);
  }

  const Taker& last() const { return last_; }
  double total() const { return total_; }
  std::int64_t elsewhere() const { return elsewhere_; }  // jobs that rank 0 told others

 private:
  std::priority_queue<Taker, std::vector<Taker>, std::greater<>> free_;
  Taker last_;
  double question_, total_ = 0;
  std::int64_t elsewhere_ = 0;
};

}  // namespace

// Rank 0 finds the gradients before, and where heads look after; others wait.
Forecast forecast_scan(const Workload& work, const Rates& rates, const Link& link, std::int64_t ranks) {
  const model::Config& config = work.config;
  const std::int64_t passes = std::max<std::int64_t>(work.sequences / work.at_once, 1);
  const double whole = forward_flops(config, work.sequences, work.window);
  const bool encoder = config.kind == model::Kind::encoder;
  double first = encoder ? 0 : (1 + kBackward) * whole / rates.training;
  if (work.per_head > 1) first += whole / rates.forward;  // the means of all heads
  const double output = number(work.sequences) * output_flops(config, work.window) / rates.forward;
  std::vector<double> walks;
  for (const model::LayerHeads& heads : config.layers) {
    walks.push_back(number(work.sequences) * layer_flops(config, heads, work.window) / rates.forward);
  }
  Takers takers(link, ranks);
  const std::int64_t together = heads::knock_outs_at_once(work.at_once * work.window);
  double above = output;
  for (const double seconds : walks) above += seconds;
  std::int64_t knock_outs = 1;
  for (std::size_t layer = 0; layer < walks.size(); ++layer) {
    const std::int64_t of_layer = work.per_head * config.layers[layer].heads;
    for (std::int64_t begin = 0; begin < of_layer; begin += together) {
      takers.take(layer, number(std::min(together, of_layer - begin)) * above, walks);
    }
    knock_outs += of_layer;
    above -= walks[layer];
  }
  takers.take(walks.size(), output, walks);
  Forecast found{.ranks = ranks};
  found.shared = takers.total() / number(ranks);
  found.repeated = first + number(work.surveys) * whole / rates.forward + takers.last().walked;
  found.uneven = beyond(takers.last().at - takers.last().walked - takers.last().asked, found.shared);
  const double scores = number(knock_outs) * (2 * kTextHead + kScores * number(work.sequences));
  if (ranks > 1) {
    found.sending = takers.last().asked + gathering(link, ranks, scores);
    found.bytes =
        kJob * number(takers.elsewhere() + ranks - 1) + number(ranks - 1) * (kTextHead * number(ranks) + scores);
  }
  const std::int64_t batch = (work.sequences + passes - 1) / passes;
  const model::Pass survey{.batch = batch, .tokens = work.window, .row_statistics = true, .last_only = true};
  const model::Pass gradient{.batch = batch, .tokens = work.window, .backward = true};
  found.memory = std::max(model::bytes_of(config, 3, survey), encoder ? 0 : model::bytes_of(config, 3, gradient));
  return found;
}

Worth worth_of(const std::vector<Forecast>& forecasts) {
  constexpr double kLeast = 0.25;
  Worth worth{.ranks = forecasts.front().ranks, .why = {}};
  for (std::size_t n = 1; n < forecasts.size(); ++n) {
    const Forecast &before = forecasts[n - 1], &now = forecasts[n];
    const double added = number(now.ranks) / number(before.ranks) - 1, gained = before.seconds() / now.seconds() - 1;
    if (gained >= kLeast * added) {
      worth.ranks = now.ranks;
      continue;
    }
    const double most = std::max({now.uneven, now.repeated, now.sending});
    worth.why = most == now.sending    ? "messages"
                : most == now.repeated ? "what is not divided"
                                       : "ranks that wait for the slowest";
    break;
  }
  return worth;
}

}  // namespace polyhead::cli
