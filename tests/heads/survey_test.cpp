// The survey once more, as its header says it: every number from all weights and logits of every head, which only a
// small model allows.
#include "heads/survey.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "support/random.h"

namespace polyhead::heads {
namespace {

using test::Random;

constexpr std::int64_t kNumbers = 9, kLongest = 12;

model::Transformer random_model(model::Kind kind, std::uint64_t seed) {
  model::Config config = model::make_config(kind, 2, 24, 3);
  config.vocabulary = kNumbers;
  config.context = kLongest;
  config.classes = kind == model::Kind::classifier ? 3 : 0;
  model::Transformer model(config, seed);
  for (autograd::Parameter* parameter : model.parameters()) {  // heads that have learnt to look somewhere
    if (parameter->name.find("in_proj_weight") == std::string::npos) continue;
    for (std::int64_t n = 0; n < count_of(parameter->value.shape()); ++n) parameter->value.as<float>()[n] *= 3;
  }
  return model;
}

Probe random_probe(Random& random, bool padded) {
  const std::int64_t B = 1 + random.below(3), T = 4 + random.below(kLongest - 3);
  Tensor tokens = Tensor::empty({B, T}, DType::i32), lengths;
  for (std::int64_t n = 0; n < B * T; ++n) {
    tokens.as<std::int32_t>()[n] = static_cast<std::int32_t>(random.below(kNumbers));
  }
  if (padded) lengths = Tensor::empty({B}, DType::i32);
  for (std::int64_t b = 0; b < B && padded; ++b) {
    lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(1 + random.below(T));
  }
  Probe probe = make_probe(tokens, lengths, {0, 4}, random.bits());
  for (int n = 0; n < 6; ++n) {
    const std::int64_t b = random.below(B), length = padded ? lengths.as<std::int32_t>()[b] : T;
    const std::int64_t query = random.below(length);
    probe.relations.push_back({b, query, random.below(query + 1), n % 2 == 0 ? "even" : "odd"});
  }
  return probe;
}

// One row of weights and logits: query t of sequence b sees keys [0, seen).
struct Row {
  std::int64_t b, t, seen;
  const float *weights, *logits;

  std::int64_t argmax_key() const { return std::max_element(weights, weights + seen) - weights; }
};

void add(HeadSurvey& to, Statistic value, std::optional<Statistic> count, double number) {
  to.sums[static_cast<std::size_t>(value)] += number;
  if (count) to.sums[static_cast<std::size_t>(*count)] += 1;
}

void add_statistics(const Row& row, const Probe& probe, HeadSurvey& to) {
  const std::int64_t T = probe.tokens.shape()[1];
  const auto seen = static_cast<double>(row.seen);
  double entropy = 0, distance = 0, marked = 0;
  double& most = to.sums[static_cast<std::size_t>(Statistic::max_logit)];
  for (std::int64_t j = 0; j < row.seen; ++j) {
    const auto p = static_cast<double>(row.weights[j]);
    entropy -= p > 0 ? p * std::log(p) : 0;
    distance += p * static_cast<double>(std::abs(row.t - j));
    marked += probe.separators.as<bool>()[row.b * T + j] ? p : 0;
    most = std::max(most, static_cast<double>(row.logits[j]));
  }
  const auto weight = [&](std::int64_t key, Statistic value, Statistic count) {
    if (key >= 0 && key < row.seen) add(to, value, count, static_cast<double>(row.weights[key]));
  };
  add(to, Statistic::entropy, Statistic::rows, entropy);
  if (row.seen > 1) add(to, Statistic::normalised_entropy, Statistic::normalised_rows, entropy / std::log(seen));
  add(to, Statistic::max_weight, {}, static_cast<double>(row.weights[row.argmax_key()]));
  add(to, Statistic::max_offset, {}, static_cast<double>(row.argmax_key() - row.t));
  add(to, Statistic::first_weight, {}, static_cast<double>(row.weights[0]));
  add(to, Statistic::distance, {}, distance);
  add(to, Statistic::marked_weight, {}, marked);
  weight(row.t, Statistic::self_weight, Statistic::self_rows);
  weight(row.t - 1, Statistic::previous_weight, Statistic::previous_rows);
  weight(row.t + 1, Statistic::next_weight, Statistic::next_rows);
  for (int slot = 0; slot < 4; ++slot) {
    const auto at = [&](Statistic first) { return static_cast<Statistic>(static_cast<int>(first) + slot); };
    weight(probe.targets.as<std::int32_t>()[(row.b * T + row.t) * 4 + slot], at(Statistic::target_weight),
           at(Statistic::target_rows));
  }
}

// Of rows that see eight keys or more: weight on such keys and their share, kind by kind.
void add_odds(const Row& row, const Probe& probe, HeadSurvey& to) {
  if (row.seen < 8) return;
  const std::int64_t T = probe.tokens.shape()[1];
  const auto add = [&](KeyKind kind, const std::function<bool(std::int64_t)>& is) {
    double w = 0, keys = 0;
    for (std::int64_t j = 0; j < row.seen; ++j) {
      w += is(j) ? static_cast<double>(row.weights[j]) : 0;
      keys += is(j) ? 1 : 0;
    }
    const double s = keys / static_cast<double>(row.seen);
    to.odds[static_cast<std::size_t>(kind)].add({w * (1 - s), (1 - w) * s});
  };
  add(kFirst, [](std::int64_t j) { return j == 0; });
  add(kSeparators, [&](std::int64_t j) { return probe.separators.as<bool>()[row.b * T + j]; });
  add(kSpecial, [&](std::int64_t j) { return probe.special.present() && probe.special.as<bool>()[row.b * T + j]; });
  for (const Slot slot : {kDuplicate, kInduction, kOffByOne, kChance}) {
    const std::int64_t key = probe.targets.as<std::int32_t>()[(row.b * T + row.t) * 4 + slot];
    if (key >= 0 && key < row.seen) add(on_slot(slot), [&](std::int64_t j) { return j == key; });
  }
}

// The rarest token that the row sees; of several the first.
std::int64_t rarest_key(const Row& row, const Probe& probe, const std::vector<std::int64_t>& counts) {
  const std::int32_t* tokens = probe.tokens.as<std::int32_t>() + row.b * probe.tokens.shape()[1];
  return std::min_element(tokens, tokens + row.seen,
                          [&](std::int32_t a, std::int32_t b) {
                            return counts[static_cast<std::size_t>(a)] < counts[static_cast<std::size_t>(b)];
                          }) -
         tokens;
}

void add_argmax_keys(const std::vector<Row>& rows, const Probe& probe, const std::vector<std::int64_t>& counts,
                     HeadSurvey& to) {
  for (const Row& row : rows) {
    to.argmax_keys.push_back(row.argmax_key());
    if (row.seen < 3) continue;
    ++to.offsets[row.argmax_key() - row.t];
    if (counts.empty()) continue;
    ++to.rarest.count;
    to.rarest.hits += row.argmax_key() == rarest_key(row, probe, counts);
  }
  for (const Relation& relation : probe.relations) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& one) {
      return one.b == relation.sequence && one.t == relation.query;
    });
    ++to.relations[relation.name].count;
    to.relations[relation.name].hits += row->argmax_key() == relation.key;
  }
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

Chance chance_of(const std::vector<Probe>& probes, bool causal) {
  Chance chance;
  std::vector<double> first, rarest;
  std::map<std::string, std::vector<std::int64_t>> offsets;
  for (const Probe& probe : probes) {
    const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t length = probe.lengths.present() ? probe.lengths.as<std::int32_t>()[b] : T;
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t seen = causal ? t + 1 : length;
        first.push_back(1 / static_cast<double>(seen));
        if (seen < 3) continue;
        rarest.push_back(1 / static_cast<double>(seen));
        ++chance.rows;
        for (std::int64_t j = 0; j < seen; ++j) ++chance.offsets[j - t];
      }
    }
    for (const Relation& one : probe.relations) offsets[one.name].push_back(one.key - one.query);
  }
  chance.first = mean(first);
  chance.rarest = mean(rarest);
  for (const auto& [name, all] : offsets) {
    std::int64_t most = 0;
    for (const std::int64_t offset : all) {
      most = std::max<std::int64_t>(most, std::count(all.begin(), all.end(), offset));
    }
    chance.relations[name] = static_cast<double>(most) / static_cast<double>(all.size());
  }
  return chance;
}

Survey plain_survey(Context& context, const model::Transformer& model, const std::vector<Probe>& probes,
                    const std::vector<std::int64_t>& counts) {
  const bool causal = model.config().kind == model::Kind::gpt;
  Survey made;
  for (const HeadId& id : model::all_heads(model.config())) {
    HeadSurvey& head = made.heads.emplace_back();
    head.id = id;
    head.sums[static_cast<std::size_t>(Statistic::max_logit)] = -std::numeric_limits<double>::infinity();
  }
  for (const Probe& probe : probes) {
    const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
    autograd::Tape tape(context, false);
    model::PassOptions options{.lengths = probe.lengths};
    options.wants.attention = {.weights = true, .logits = LogitStage::biased};
    model.forward(tape, probe.tokens, options);
    for (HeadSurvey& head : made.heads) {
      const MultiHeadResults& layer = model.attention(tape, head.id.layer).forward;  // [B,H,T,T]
      const std::int64_t H = layer.weights.shape()[1];
      std::vector<Row> rows;
      for (std::int64_t b = 0; b < B; ++b) {
        const std::int64_t length = probe.lengths.present() ? probe.lengths.as<std::int32_t>()[b] : T;
        for (std::int64_t t = 0; t < length; ++t) {
          const std::int64_t at = ((b * H + head.id.head) * T + t) * T;
          const float *weights = layer.weights.as<float>() + at, *logits = layer.logits.as<float>() + at;
          rows.push_back({b, t, causal ? t + 1 : length, weights, logits});
        }
      }
      for (const Row& row : rows) {
        add_statistics(row, probe, head);
        add_odds(row, probe, head);
      }
      add_argmax_keys(rows, probe, counts, head);
    }
  }
  made.chance = chance_of(probes, causal);
  return made;
}

void expect_same(const HeadSurvey& found, const HeadSurvey& expected) {
  EXPECT_EQ(found.id, expected.id);
  for (int f = 0; f < kFullStatistics; ++f) {
    const double wanted = expected.sums[static_cast<std::size_t>(f)];
    EXPECT_NEAR(found.sums[static_cast<std::size_t>(f)], wanted, 1e-4 + 1e-5 * std::abs(wanted))
        << name_of(static_cast<Statistic>(f));
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    EXPECT_NEAR(found.odds[kind].favour, expected.odds[kind].favour, 1e-4) << kind;
    EXPECT_NEAR(found.odds[kind].against, expected.odds[kind].against, 1e-4) << kind;
  }
  EXPECT_EQ(found.argmax_keys, expected.argmax_keys);
  EXPECT_EQ(found.offsets, expected.offsets);
  EXPECT_EQ(found.rarest.hits, expected.rarest.hits);
  EXPECT_EQ(found.rarest.count, expected.rarest.count);
  ASSERT_EQ(found.relations.size(), expected.relations.size());
  for (const auto& [name, share] : expected.relations) {
    EXPECT_EQ(found.relations.at(name).hits, share.hits) << name;
    EXPECT_EQ(found.relations.at(name).count, share.count) << name;
  }
}

void expect_same(const Chance& found, const Chance& expected) {
  EXPECT_NEAR(found.first, expected.first, 1e-12);
  EXPECT_NEAR(found.rarest, expected.rarest, 1e-12);
  EXPECT_EQ(found.rows, expected.rows);
  EXPECT_EQ(found.offsets, expected.offsets);
  EXPECT_EQ(found.relations, expected.relations);
}

TEST(Survey, IsWhatAllWeightsSay) {
  Context context(2);
  for (const model::Kind kind : {model::Kind::gpt, model::Kind::classifier, model::Kind::encoder}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", seed " << seed);
      Random random(seed);
      const model::Transformer model = random_model(kind, seed);
      std::vector<Probe> probes;
      for (int n = 0; n < 3; ++n) probes.push_back(random_probe(random, seed % 2 == 0));
      std::vector<std::int64_t> counts;  // few of them differ
      for (std::int64_t n = 0; n < kNumbers && seed % 4 != 0; ++n) counts.push_back(1 + random.below(3));
      const Survey found = survey(context, model, probes, counts);
      const Survey expected = plain_survey(context, model, probes, counts);
      ASSERT_EQ(found.heads.size(), expected.heads.size());
      for (std::size_t n = 0; n < found.heads.size(); ++n) expect_same(found.heads[n], expected.heads[n]);
      expect_same(found.chance, expected.chance);
    }
  }
}

// Heads agree where they look at the same key: at the one beside it is elsewhere.
TEST(Survey, HeadsAgreeWhereTheyLookAtOneKey) {
  Survey made;
  for (const std::vector<std::int64_t>& looks : {std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7},
                                                 {0, 0, 1, 2, 3, 4, 5, 6},     // one key before
                                                 {1, 2, 3, 4, 5, 6, 7, 7},     // one key after
                                                 {0, 1, 2, 3, 3, 6, 5, 8}}) {  // half of them
    made.heads.emplace_back().argmax_keys = looks;
  }
  const std::vector<std::vector<double>> expected{
      {1, 0.125, 0.125, 0.5}, {0.125, 1, 0, 0.375}, {0.125, 0, 1, 0.125}, {0.5, 0.375, 0.125, 1}};
  EXPECT_EQ(agreement(made), expected);
}

}  // namespace
}  // namespace polyhead::heads
