#include "heads/survey.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/on_host.h"

namespace polyhead::heads {
namespace {

// One row of a probe: query t of sequence b sees keys [0, seen).
struct Row {
  std::int64_t b, t, seen;
};

std::vector<Row> rows_of(const Probe& probe, bool causal) {
  std::vector<Row> rows;
  const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t length = probe.lengths.present() ? probe.lengths.as<std::int32_t>()[b] : T;
    for (std::int64_t t = 0; t < length; ++t) rows.push_back({b, t, causal ? t + 1 : length});
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
    const std::int64_t T = probe.tokens.shape()[1];
    for (const Row& row : rows) {
      const auto seen = static_cast<double>(row.seen);
      const bool* marked = probe.marked.as<bool>() + row.b * T;
      first_.add(1 / seen);
      marked_.add(static_cast<double>(std::count(marked, marked + row.seen, true)) / seen);
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
    Chance chance{first_.mean(), marked_.mean(), rows_, {}, rarest_.mean(), {}};
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
  Means first_, marked_, rarest_;
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

void add(const HeadOnProbe& head, const Probe& probe, const std::vector<Row>& rows,
         const std::vector<std::int64_t>& rarest, HeadSurvey& to) {
  for (std::int64_t b = 0; b < head.B; ++b) {
    for (std::size_t f = 0; f < to.sums.size(); ++f) {
      const auto value = static_cast<double>(head.of_batch[b * head.batch_stride + static_cast<std::int64_t>(f)]);
      to.sums[f] =
          f == static_cast<std::size_t>(Statistic::max_logit) ? std::max(to.sums[f], value) : to.sums[f] + value;
    }
  }
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const std::int64_t key = head.argmax_key(rows[n]);
    to.argmax_keys.push_back(key);
    if (rows[n].seen < kEnough) continue;
    ++to.offsets[key - rows[n].t];
    if (rarest[n] < 0) continue;
    ++to.rarest.count;
    to.rarest.hits += key == rarest[n];
  }
  for (const Relation& relation : probe.relations) {
    Share& share = to.relations[relation.name];
    ++share.count;
    const std::int64_t within = head.argmax_key({relation.sequence, relation.query, 0}) - relation.key;
    share.hits += within >= 0 && within < relation.keys;
  }
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

Survey survey(autograd::Tape& tape, const model::Transformer& model, const std::vector<Probe>& probes,
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
    tape.clear();
    model::PassOptions options{.lengths = probe.lengths, .gates = pass.gates};
    options.wants.attention = {.statistics = StatisticsSet::full,
                               .row_statistics = true,
                               .marked_keys = probe.marked,
                               .target_keys = probe.targets};
    const autograd::Variable left =
        model.through(tape, model.read(tape, probe.tokens, options), 0, model.config().layers.size(), options);
    if (pass.on_output) pass.on_output(model.answer(tape, left, options));
    for (auto head = result.heads.begin(); head != result.heads.end();) {
      const std::size_t number = head->id.layer;
      const MultiHeadResults& layer = model.attention(tape, number).forward;
      const OnHost all(tape.context(), layer.statistics), each(tape.context(), layer.row_statistics);
      const std::int64_t H = all.view().shape(1), T = each.view().shape(2);
      for (; head != result.heads.end() && head->id.layer == number; ++head) {
        const std::int64_t h = head->id.head;
        add({all.as<float>() + h * kFullStatistics, each.as<float>() + h * T * kFullStatistics, H * kFullStatistics,
             H * T * kFullStatistics, all.view().shape(0)},
            probe, rows, rarest, *head);
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
