#include "heads/survey.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/on_host.h"

namespace polyhead::heads {
namespace {

// One row of a probe: query t of sequence b sees keys [0, seen), so many of which are special or separators.
struct Row {
  std::int64_t b, t, seen, special = 0, separators = 0;

  double share(std::int64_t keys = 1) const { return static_cast<double>(keys) / static_cast<double>(seen); }
};

// How many of the keys before each are marked, [T + 1].
std::vector<std::int64_t> marked_before(const Tensor& marked, std::int64_t b, std::int64_t T) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(T + 1));
  for (std::int64_t t = 0; marked.present() && t < T; ++t) {
    counts[static_cast<std::size_t>(t + 1)] = counts[static_cast<std::size_t>(t)] + marked.as<bool>()[b * T + t];
  }
  return counts;
}

std::vector<Row> rows_of(const Probe& probe, bool causal) {
  std::vector<Row> rows;
  const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t length = probe.lengths.present() ? probe.lengths.as<std::int32_t>()[b] : T;
    const std::vector<std::int64_t> special = marked_before(probe.special, b, T),
                                    separators = marked_before(probe.separators, b, T);
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t seen = causal ? t + 1 : length;
      const auto at = static_cast<std::size_t>(seen);
      rows.push_back({b, t, seen, special[at], separators[at]});
    }
  }
  return rows;
}

// For every row the key of the rarest visible token, the first of equally rare ones; -1 if counts are unknown.
std::vector<std::int64_t> rarest_keys(const Probe& probe, const std::vector<Row>& rows,
                                      const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> keys(rows.size(), -1);
  if (counts.empty()) return keys;
  const std::int64_t T = probe.tokens.shape()[1];
  std::int64_t best = 0, looked_at = 1;  // later rows of a sequence see at least as many keys
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const std::int32_t* tokens = probe.tokens.as<std::int32_t>() + rows[n].b * T;
    const auto count = [&](std::int64_t j) { return counts[static_cast<std::size_t>(tokens[j])]; };
    if (rows[n].t == 0) best = 0, looked_at = 1;
    for (; looked_at < rows[n].seen; ++looked_at) best = count(looked_at) < count(best) ? looked_at : best;
    keys[n] = best;
  }
  return keys;
}

constexpr std::int64_t kEnough = 3;  // with fewer visible keys, the place of the largest weight says little
constexpr std::int64_t kMany = 8;    // with fewer, weight on some of them says little

struct Means {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

class Chances {
 public:
  void add(const Probe& probe, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      const auto seen = static_cast<double>(row.seen);
      first_.add(1 / seen);
      if (row.seen < kEnough) continue;
      rarest_.add(1 / seen);
      ++rows_;
      ++edges_[-row.t];
      --edges_[row.seen - row.t];
    }
    for (const Relation& relation : probe.relations) {
      for (std::int64_t n = 0; n < relation.keys; ++n) {
        ++offsets_[relation.name][relation.key + n - relation.query];
      }
      ++relations_[relation.name];
    }
  }
  Chance made() const {
    Chance chance{first_.mean(), rows_, {}, rarest_.mean(), {}};
    std::int64_t at = 0, rows = 0;
    for (const auto& [edge, change] : edges_) {
      for (; rows > 0 && at < edge; ++at) chance.offsets[at] = rows;
      at = edge;
      rows += change;
    }
    for (const auto& [name, offsets] : offsets_) {
      std::int64_t most = 0;
      for (const auto& [offset, count] : offsets) most = std::max(most, count);
      chance.relations[name] = static_cast<double>(most) / static_cast<double>(relations_.at(name));
    }
    return chance;
  }

 private:
  Means first_, rarest_;
  std::int64_t rows_ = 0;
  std::map<std::int64_t, std::int64_t> edges_;  // by offset: how many more rows have a key there than at offset - 1
  std::map<std::string, std::map<std::int64_t, std::int64_t>> offsets_;
  std::map<std::string, std::int64_t> relations_;
};

// What one head did on one probe. statistics [B,H,F], rows [B,H,T,F].
struct HeadOnProbe {
  const float* of_batch;
  const float* of_rows;
  std::int64_t batch_stride, row_batch_stride, B;

  const float* row(std::int64_t b, std::int64_t t) const {
    return of_rows + b * row_batch_stride + t * kFullStatistics;
  }
  std::int64_t argmax_key(const Row& r) const {
    const float* fields = row(r.b, r.t);
    if (!std::isfinite(fields[static_cast<int>(Statistic::max_weight)])) {
      throw Error(ErrorCode::value, "survey", "a head's attention weights are NaN: the model overflows");
    }
    return r.t + static_cast<std::int64_t>(fields[static_cast<int>(Statistic::max_offset)]);
  }
};

// w of the weights on keys that are s of all.
void add_row(double w, double s, Odds& to) {
  const double weight = std::clamp(w, 0.0, 1.0);
  to.add({weight * (1 - s), (1 - weight) * s});
}

void add_odds(const float* fields, const Row& row, std::array<Odds, kKinds>& to) {
  const auto at = [&](Statistic first, int slot = 0) {
    return static_cast<double>(fields[static_cast<int>(first) + slot]);
  };
  add_row(at(Statistic::first_weight), row.share(), to[kFirst]);
  add_row(at(Statistic::marked_weight), row.share(row.separators), to[kSeparators]);
  for (int slot = 0; slot < kKinds - kOnSlots; ++slot) {
    if (at(Statistic::target_rows, slot) == 0) continue;
    add_row(at(Statistic::target_weight, slot), row.share(), to[static_cast<std::size_t>(kOnSlots + slot)]);
  }
}

// What the head did in each sequence of the probe.
std::vector<SequenceSurvey> by_sequence(const HeadOnProbe& head, const Probe& probe, const std::vector<Row>& rows,
                                        const std::vector<std::int64_t>& rarest,
                                        std::vector<std::int64_t>& argmax_keys) {
  std::vector<SequenceSurvey> made(static_cast<std::size_t>(head.B));
  for (std::int64_t b = 0; b < head.B; ++b) {
    SequenceSurvey& to = made[static_cast<std::size_t>(b)];
    std::copy_n(head.of_batch + b * head.batch_stride, kFullStatistics, to.sums.begin());
    to.group = probe.group;
  }
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const Row& row = rows[n];
    SequenceSurvey& to = made[static_cast<std::size_t>(row.b)];
    const std::int64_t key = head.argmax_key(row);
    argmax_keys.push_back(key);
    if (row.seen >= kMany) add_odds(head.row(row.b, row.t), row, to.odds);
    if (row.seen < kEnough) continue;
    ++to.offsets[key - row.t];
    if (rarest[n] < 0) continue;
    ++to.rarest.count;
    to.rarest.hits += key == rarest[n];
  }
  for (const Relation& relation : probe.relations) {
    Share& share = made[static_cast<std::size_t>(relation.sequence)].relations[relation.name];
    ++share.count;
    const std::int64_t within = head.argmax_key({relation.sequence, relation.query, 0}) - relation.key;
    share.hits += within >= 0 && within < relation.keys;
  }
  return made;
}

// Of another pass, whose marked keys were the special ones.
void add_special(const HeadOnProbe& head, const std::vector<Row>& rows, std::vector<SequenceSurvey>& to) {
  for (const Row& row : rows) {
    if (row.seen < kMany) continue;
    const float weight = head.row(row.b, row.t)[static_cast<int>(Statistic::marked_weight)];
    add_row(static_cast<double>(weight), row.share(row.special), to[static_cast<std::size_t>(row.b)].odds[kSpecial]);
  }
}

void add(const SequenceSurvey& sequence, HeadSurvey& to) {
  for (std::size_t f = 0; f < to.sums.size(); ++f) {
    const auto value = static_cast<double>(sequence.sums[f]);
    to.sums[f] = f == static_cast<std::size_t>(Statistic::max_logit) ? std::max(to.sums[f], value) : to.sums[f] + value;
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) to.odds[kind].add(sequence.odds[kind]);
  for (const auto& [offset, count] : sequence.offsets) to.offsets[offset] += count;
  to.rarest.hits += sequence.rarest.hits;
  to.rarest.count += sequence.rarest.count;
  for (const auto& [name, share] : sequence.relations) {
    to.relations[name].hits += share.hits;
    to.relations[name].count += share.count;
  }
}

// The statistics that the tape's last pass left of every head, in the order of all_heads.
void for_each_head(autograd::Tape& tape, const model::Transformer& model,
                   const std::function<void(std::size_t, const HeadOnProbe&)>& visit) {
  std::size_t n = 0;
  for (std::size_t number = 0; number < model.config().layers.size(); ++number) {
    if (model.config().layers[number].heads == 0) continue;
    const MultiHeadResults& layer = model.attention(tape, number).forward;
    const OnHost all(tape.context(), layer.statistics), each(tape.context(), layer.row_statistics);
    const std::int64_t H = all.view().shape(1), T = each.view().shape(2);
    for (std::int64_t h = 0; h < H; ++h) {
      visit(n++, {all.as<float>() + h * kFullStatistics, each.as<float>() + h * T * kFullStatistics,
                  H * kFullStatistics, H * T * kFullStatistics, all.view().shape(0)});
    }
  }
}

// The last layer's output.
autograd::Variable through(autograd::Tape& tape, const model::Transformer& model, autograd::Variable x,
                           const std::vector<std::size_t>* order, const model::PassOptions& options) {
  if (order == nullptr) return model.through(tape, x, 0, model.config().layers.size(), options);
  for (const std::size_t layer : *order) x = model.through(tape, x, layer, layer + 1, options);
  return x;
}

// Chance is computed for rows that see everything before them.
void expect_within_windows(const model::Config& config, std::int64_t tokens) {
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const std::int64_t window = config.layers[layer].window;
    if (window == 0 || window >= tokens) continue;
    throw Error(ErrorCode::value, "survey",
                "layer " + std::to_string(layer) + " sees " + std::to_string(window) +
                    " tokens at most: expected sequences no longer than that, found " + std::to_string(tokens));
  }
}

}  // namespace

double HeadSurvey::mean(Statistic value, Statistic count) const {
  return sum(count) == 0 ? 0 : sum(value) / sum(count);
}
double HeadSurvey::target(Slot slot) const {
  const auto at = [&](Statistic first) { return static_cast<Statistic>(static_cast<int>(first) + slot); };
  return mean(at(Statistic::target_weight), at(Statistic::target_rows));
}
std::pair<std::int64_t, double> commonest_offset(const HeadSurvey& head, const Chance& chance) {
  std::pair<std::int64_t, double> best{0, 0};
  for (const auto& [offset, count] : head.offsets) {
    const std::int64_t rows = chance.offsets.at(offset);
    const double share = static_cast<double>(count) / static_cast<double>(rows);
    if (2 * rows >= chance.rows && share > best.second) best = {offset, share};
  }
  return best;
}

Survey survey(Context& context, const model::Transformer& model, const std::vector<Probe>& probes,
              const std::vector<std::int64_t>& counts) {
  autograd::Tape tape(context, false);
  return survey(tape, model, probes, counts, {});
}

Survey survey(autograd::Tape& tape, const model::Transformer& model, std::span<const Probe> probes,
              const std::vector<std::int64_t>& counts, const SurveyPass& pass) {
  Survey result;
  for (const HeadId& id : model::all_heads(model.config())) result.heads.emplace_back().id = id;
  for (HeadSurvey& head : result.heads) {
    head.sums[static_cast<std::size_t>(Statistic::max_logit)] = -std::numeric_limits<double>::infinity();
  }
  Chances chances;
  for (const Probe& probe : probes) {
    expect_within_windows(model.config(), probe.tokens.shape()[1]);
    const std::vector<Row> rows = rows_of(probe, model.config().kind == model::Kind::gpt);
    const std::vector<std::int64_t> rarest = rarest_keys(probe, rows, counts);
    chances.add(probe, rows);
    const auto read = [&](const Tensor& marked, bool answer) {
      tape.clear();
      model::PassOptions options{.lengths = probe.lengths, .gates = pass.gates};
      options.wants.attention = {.statistics = StatisticsSet::full,
                                 .row_statistics = true,
                                 .marked_keys = marked,
                                 .target_keys = probe.targets};
      const autograd::Variable left =
          through(tape, model, model.read(tape, probe.tokens, options), pass.order, options);
      if (answer && pass.on_output) pass.on_output(model.answer(tape, left, options));
    };
    std::vector<std::vector<SequenceSurvey>> found;
    read(probe.separators, true);
    for_each_head(tape, model, [&](std::size_t n, const HeadOnProbe& head) {
      found.push_back(by_sequence(head, probe, rows, rarest, result.heads[n].argmax_keys));
    });
    if (probe.special.present()) {
      read(probe.special, false);
      for_each_head(tape, model, [&](std::size_t n, const HeadOnProbe& head) { add_special(head, rows, found[n]); });
    }
    for (std::size_t n = 0; n < found.size(); ++n) {
      for (SequenceSurvey& sequence : found[n]) {
        add(sequence, result.heads[n]);
        result.heads[n].sequences.push_back(std::move(sequence));
      }
    }
  }
  result.chance = chances.made();
  return result;
}

double agreement(const HeadSurvey& a, const HeadSurvey& b) {
  std::int64_t same = 0;
  for (std::size_t n = 0; n < a.argmax_keys.size(); ++n) same += a.argmax_keys[n] == b.argmax_keys[n];
  return static_cast<double>(same) / static_cast<double>(std::max<std::size_t>(a.argmax_keys.size(), 1));
}

std::vector<std::vector<double>> agreement(const Survey& survey) {
  const std::size_t count = survey.heads.size();
  std::vector<std::vector<double>> matrix(count, std::vector<double>(count, 1));
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      matrix[a][b] = matrix[b][a] = agreement(survey.heads[a], survey.heads[b]);
    }
  }
  return matrix;
}

}  // namespace polyhead::heads
