// The detectors on heads that are made up number by number: what each role takes, what its control forbids, and who
// comes first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "heads/importance.h"
#include "heads/roles.h"
#include "heads/sinks.h"

namespace polyhead::heads {
namespace {

// Means that the detectors read; rows of every kind are 100.
struct Numbers {
  double induction = 0.1, duplicate = 0.1, off_by_one = 0.1, random = 0.1;  // on repeats
  double previous = 0.1;                                                    // on repeats
  double offset_share = 0.2;                                                // of rows, at offset -2
  double rarest = 0.1, separators = 0.1, special = 0.1, first = 0.1, entropy = 0.5;
  double relation = 0.2;
  double chance = 0.15, chance_rarest = 0.13, chance_relation = 0.25, repeats_chance = 0.11;
};

void set(HeadSurvey& head, Statistic value, Statistic count, double mean) {
  head.sums[static_cast<std::size_t>(value)] = 100 * mean;
  head.sums[static_cast<std::size_t>(count)] = 100;
}
// The odds of keys that get this weight if they are one in eight.
void set(HeadSurvey& head, KeyKind kind, double weight) {
  head.odds[static_cast<std::size_t>(kind)] = {weight * 7 / 8, (1 - weight) / 8};
}

std::vector<HeadRoles> roles_with(const Numbers& n) {
  Survey plain, repeats;
  HeadSurvey &p = plain.heads.emplace_back(), &r = repeats.heads.emplace_back();
  p.id = r.id = {1, 3};
  set(r, on_slot(kInduction), n.induction);
  set(r, on_slot(kDuplicate), n.duplicate);
  set(r, on_slot(kOffByOne), n.off_by_one);
  set(r, on_slot(kChance), n.random);
  set(r, Statistic::previous_weight, Statistic::previous_rows, n.previous);
  repeats.chance.first = n.repeats_chance;
  p.offsets[-2] = std::llround(1000 * n.offset_share);
  plain.chance.offsets[-2] = plain.chance.rows = 1000;
  p.rarest = {std::llround(1000 * n.rarest), 1000};
  set(p, kSeparators, n.separators);
  set(p, kSpecial, n.special);
  set(p, kFirst, n.first);
  set(p, Statistic::normalised_entropy, Statistic::normalised_rows, n.entropy);
  p.relations["subject-verb"] = {std::llround(1000 * n.relation), 1000};
  plain.chance.relations["subject-verb"] = n.chance_relation;
  plain.chance.first = n.chance;
  plain.chance.rarest = n.chance_rarest;
  return roles(plain, repeats);
}

std::string role_with(const Numbers& n) {
  const std::vector<HeadRoles> found = roles_with(n);
  EXPECT_EQ(found[0].id, (HeadId{1, 3}));
  return found[0].role() == nullptr ? "none" : found[0].role()->role;
}

// A role by its score and what it is measured against.
struct Detector {
  const char* role;
  double Numbers::*score;
  double Numbers::*control;  // null: none
  double threshold;
};
const Detector kDetectors[] = {
    {"induction", &Numbers::induction, &Numbers::off_by_one, kOnKeys},
    {"induction", &Numbers::induction, &Numbers::random, kOnKeys},
    {"duplicate", &Numbers::duplicate, &Numbers::random, kOnKeys},
    {"subject-verb", &Numbers::relation, &Numbers::chance_relation, 0},
    {"previous token", &Numbers::previous, &Numbers::repeats_chance, 0.4},
    {"positional", &Numbers::offset_share, &Numbers::chance, 0.9},
    {"rare token", &Numbers::rarest, &Numbers::chance_rarest, 0.5},
    {"separator", &Numbers::separators, nullptr, kOnKeys},
    {"special token", &Numbers::special, nullptr, kOnKeys},
    {"first token", &Numbers::first, nullptr, kOnKeys},
    {"averaging", &Numbers::entropy, nullptr, 0.9},
};

TEST(Detectors, AHeadThatDoesNothingHasNoRole) { EXPECT_EQ(role_with({}), "none"); }

TEST(Detectors, EveryRoleHasItsThreshold) {
  for (const Detector& d : kDetectors) {
    if (d.threshold == 0) continue;
    Numbers n;
    n.*d.score = d.threshold + 0.002;
    EXPECT_EQ(role_with(n), d.role);
    n.*d.score = d.threshold - 0.002;
    EXPECT_EQ(role_with(n), "none") << d.role;
  }
}

// The score is there, but what has not the role scores as much.
TEST(Detectors, EveryRoleHasItsControl) {
  for (const Detector& d : kDetectors) {
    if (d.control == nullptr) continue;
    Numbers n;
    n.*d.score = 0.95;
    n.*d.control = 0.95 - kMargin - 0.002;
    EXPECT_EQ(role_with(n), d.role);
    n.*d.control = 0.95 - kMargin + 0.002;
    EXPECT_NE(role_with(n), d.role) << "against its control";
  }
}

TEST(Detectors, TheScoresCarryWhatTheyAreMeasuredAgainst) {
  const Numbers n{.induction = 0.31, .off_by_one = 0.07, .random = 0.09, .offset_share = 0.3};
  const HeadRoles head = roles_with(n)[0];
  for (const Detector& d : kDetectors) {
    const RoleScore* score = head.score_in(d.role);
    ASSERT_NE(score, nullptr) << d.role;
    EXPECT_NEAR(score->score, n.*d.score, 1e-9) << d.role;
    if (d.threshold > 0) {
      EXPECT_EQ(score->threshold, d.threshold) << d.role;
    }
  }
  EXPECT_NEAR(head.score_in("induction")->control, 0.09, 1e-9) << "the larger of the two";
  EXPECT_NEAR(head.score_in("subject-verb")->threshold, 0.25 + kMargin, 1e-9);
  EXPECT_EQ(head.score_in("positional")->note, "offset -2");
  EXPECT_EQ(head.score_in("coreference"), nullptr);
}

// All of them at once: the more particular is said, and when that goes, the next.
TEST(Detectors, TheMoreParticularComesFirst) {
  Numbers n;
  const double kNothing = 0.1;
  for (const Detector& d : kDetectors) n.*d.score = 0.95;
  for (const char* role : {"induction", "duplicate", "subject-verb", "previous token", "positional", "rare token",
                           "separator", "special token", "first token", "averaging"}) {
    EXPECT_EQ(role_with(n), role);
    for (const Detector& d : kDetectors) {
      if (std::string(d.role) == role) n.*d.score = kNothing;
    }
  }
  EXPECT_EQ(role_with(n), "none");
}

TEST(Detectors, OfSeveralRelationsTheOneFurthestAboveItsOffset) {
  Survey plain, repeats;
  HeadSurvey& head = plain.heads.emplace_back();
  repeats.heads.emplace_back();
  head.relations = {{"a", {900, 1000}}, {"b", {700, 1000}}, {"c", {800, 1000}}};
  plain.chance.relations = {{"a", 0.75}, {"b", 0.2}, {"c", 0.5}};
  const HeadRoles found = roles(plain, repeats)[0];
  ASSERT_NE(found.role(), nullptr);
  EXPECT_EQ(found.role()->role, "b");
  EXPECT_EQ(found.score_in("rare token"), nullptr) << "nothing is rare where nothing was counted";
  EXPECT_EQ(found.score_in("separator"), nullptr) << "there are none";
}

TEST(Detectors, AScoreAtItsThresholdHoldsAndOneBelowDoesNot) {
  EXPECT_TRUE((RoleScore{"r", 0.4, 0.4, 0.1}.holds()));
  EXPECT_FALSE((RoleScore{"r", 0.39999, 0.4, 0.1}.holds()));
  EXPECT_TRUE((RoleScore{"r", 0.5 + kMargin, 0.4, 0.5}.holds()));
  EXPECT_FALSE((RoleScore{"r", 0.49999 + kMargin, 0.4, 0.5}.holds()));
}

TEST(Detectors, AnIntervalThatSpansTheLimitIsBorderline) {
  const auto with = [](double low, double high, double control = 0.1) {
    return RoleScore{.role = "r", .score = 0.5, .threshold = 0.4, .control = control, .interval = Interval{low, high}};
  };
  EXPECT_TRUE(with(0.39, 0.6).borderline());
  EXPECT_FALSE(with(0.4, 0.6).borderline());
  EXPECT_FALSE(with(0.2, 0.39).borderline());
  EXPECT_TRUE(with(0.45, 0.65, 0.5).borderline()) << "the control is what it must beat";
  EXPECT_FALSE((RoleScore{"r", 0.4, 0.4, 0.1}.borderline())) << "no interval, no border";
}

// A role that changes from text to text is no role of a model that reads text: it is a number there.
TEST(Detectors, WhatChangesWithTheTextIsANumberOnly) {
  Survey plain, repeats;
  HeadSurvey& head = plain.heads.emplace_back();
  repeats.heads.emplace_back();
  set(head, kSeparators, 0.9);
  set(head, kFirst, 0.8);
  EXPECT_EQ(roles(plain, repeats)[0].role()->role, "separator");
  const HeadRoles of_text = roles(plain, repeats, true)[0];
  EXPECT_EQ(of_text.role()->role, "first token");
  EXPECT_NEAR(of_text.score_in("separator")->score, 0.9, 1e-12);
}

// Odds say by how much logits are higher: the same for any number of keys, and for few and many rows.
TEST(Odds, DoNotDependOnHowManyKeysThereAre) {
  for (const double bias : {0.0, 1.0, 3.0}) {
    const double odds = std::exp(bias);
    for (const std::int64_t keys : {16, 64, 1024}) {
      Odds all;
      for (std::int64_t seen = 8; seen <= keys; ++seen) {
        const double s = 1.0 / static_cast<double>(seen), w = odds * s / (odds * s + 1 - s);
        all.add({w * (1 - s), (1 - w) * s});
      }
      EXPECT_NEAR(all.value(), odds, 1e-9 * odds) << keys;
      EXPECT_NEAR(all.weight_at(1.0 / 8), odds / (odds + 7), 1e-9) << keys;
    }
  }
  EXPECT_FALSE(Odds{}.known());
  EXPECT_EQ(Odds{}.weight_at(0.5), 0);
}

// ---- what the survey counts

TEST(Offsets, OnlyThoseThatHalfOfTheRowsHaveCount) {
  HeadSurvey head;
  Chance chance;
  chance.rows = 100;
  chance.offsets = {{-1, 100}, {-30, 49}, {-20, 50}};
  head.offsets = {{-1, 60}, {-30, 49}, {-20, 40}};
  EXPECT_EQ(commonest_offset(head, chance), (std::pair<std::int64_t, double>{-20, 0.8}))
      << "share of the rows that have it";
  head.offsets[-20] = 10;
  EXPECT_EQ(commonest_offset(head, chance), (std::pair<std::int64_t, double>{-1, 0.6})) << "-30 is too seldom there";
  EXPECT_EQ(commonest_offset({}, chance), (std::pair<std::int64_t, double>{0, 0}));
}

// Attention is the same for all visible keys: with weights of 0 nothing is preferred.
model::Transformer blank(model::Kind kind) {
  model::Config config = model::make_config(kind, 1, 8, 2);
  config.vocabulary = 6;
  config.context = 8;
  config.classes = kind == model::Kind::classifier ? 2 : 0;
  model::Transformer model(config, 1);
  for (autograd::Parameter* parameter : model.parameters()) {
    std::fill_n(parameter->value.as<float>(), count_of(parameter->value.shape()), 0.0f);
  }
  return model;
}

Tensor row_of(const std::vector<std::int32_t>& tokens, std::int64_t rows = 1) {
  Tensor made = Tensor::empty({rows, static_cast<std::int64_t>(tokens.size()) / rows}, DType::i32);
  std::copy(tokens.begin(), tokens.end(), made.as<std::int32_t>());
  return made;
}

Survey survey_of(model::Kind kind, Probe probe, const std::vector<std::int64_t>& counts = {}) {
  model::Transformer model = blank(kind);
  Context context(1);
  std::vector<Probe> probes;
  probes.push_back(std::move(probe));
  return survey(context, model, probes, counts);
}

// Four tokens, causal: rows see 1, 2, 3 and 4 keys; token 0 is marked.
TEST(Chance, IsWhatEqualWeightsGive) {
  const Survey causal = survey_of(model::Kind::gpt, make_probe(row_of({1, 0, 2, 0}), {}, {0}, 1));
  EXPECT_NEAR(causal.chance.first, (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 4, 1e-12);
  EXPECT_EQ(causal.chance.rows, 2) << "rows that see three keys or more";
  EXPECT_NEAR(causal.chance.rarest, (1.0 / 3 + 1.0 / 4) / 2, 1e-12);
  EXPECT_EQ(causal.chance.offsets, (std::map<std::int64_t, std::int64_t>{{-3, 1}, {-2, 2}, {-1, 2}, {0, 2}}));
  // And the head with equal weights gets just that.
  EXPECT_NEAR(causal.heads[0].mean(Statistic::first_weight, Statistic::rows), causal.chance.first, 1e-6);
  EXPECT_NEAR(causal.heads[0].mean(Statistic::marked_weight, Statistic::rows), (0 + 1.0 / 2 + 1.0 / 3 + 2.0 / 4) / 4,
              1e-6);

  const Survey both_ways = survey_of(model::Kind::classifier, make_probe(row_of({1, 0, 2, 0}), {}, {0}, 1));
  EXPECT_NEAR(both_ways.chance.first, 0.25, 1e-12);
  EXPECT_EQ(both_ways.chance.rows, 4);
  EXPECT_EQ(both_ways.chance.offsets.at(3), 1);
}

// Of the offsets that a relation has, the commonest is the one to beat, wherever it stands among them.
TEST(Chance, OfARelationIsItsCommonestOffset) {
  Probe probe = make_probe(row_of({1, 0, 2, 0}), {}, {}, 1);
  probe.relations = {{0, 3, 0, "far"}, {0, 2, 0, "far"}, {0, 3, 1, "far"}, {0, 3, 2, "far"}, {0, 3, 3, "self"}};
  const Survey found = survey_of(model::Kind::gpt, std::move(probe));
  EXPECT_NEAR(found.chance.relations.at("far"), 0.5, 1e-12) << "-2 in two of four";
  EXPECT_EQ(found.chance.relations.at("self"), 1);
  EXPECT_EQ(found.heads[0].relations.at("far").count, 4);
}

// The largest of equal weights is the first. Any token of the key's word will do, and by chance too.
TEST(Chance, OfARelationToAWordOfSeveralTokens) {
  Probe probe = make_probe(row_of({1, 0, 2, 0}), {}, {}, 1);
  probe.relations = {{0, 3, 0, "word", 2}, {0, 2, 1, "word", 2}, {0, 3, 1, "rest", 3}};
  const Survey found = survey_of(model::Kind::gpt, std::move(probe));
  EXPECT_EQ(found.heads[0].relations.at("word").hits, 1);
  EXPECT_EQ(found.heads[0].relations.at("rest").hits, 0);
  EXPECT_NEAR(found.chance.relations.at("word"), 0.5, 1e-12) << "-3 and -2 of the one, -1 and 0 of the other";
  EXPECT_EQ(found.chance.relations.at("rest"), 1) << "any of -2, -1 and 0";
}

TEST(Chance, IsNotThatOfAWindow) {
  model::Config config = blank(model::Kind::gpt).config();
  config.layers[0].window = 3;
  const model::Transformer model(config);
  Context context(1);
  std::vector<Probe> probes;
  probes.push_back(make_probe(row_of({1, 0, 2}), {}, {}, 1));
  EXPECT_NO_THROW(survey(context, model, probes));
  probes.push_back(make_probe(row_of({1, 0, 2, 0}), {}, {}, 1));
  EXPECT_THROW(survey(context, model, probes), Error);
}

// The second sequence has three tokens; what is behind them is nothing: no row, no key, no mark.
TEST(Chance, KnowsNothingOfPadding) {
  Tensor lengths = Tensor::empty({2}, DType::i32);
  lengths.as<std::int32_t>()[0] = 4;
  lengths.as<std::int32_t>()[1] = 3;
  const Probe padded = make_probe(row_of({1, 0, 2, 0, 3, 4, 5, 0}, 2), lengths, {0}, 1);
  EXPECT_TRUE(padded.separators.as<bool>()[3]);
  EXPECT_FALSE(padded.separators.as<bool>()[7]) << "padding is no separator";
  for (const model::Kind kind : {model::Kind::gpt, model::Kind::classifier}) {
    const Survey found = survey_of(kind, make_probe(row_of({1, 0, 2, 0, 3, 4, 5, 0}, 2), lengths, {0}, 1));
    const bool causal = kind == model::Kind::gpt;
    EXPECT_EQ(found.chance.rows, causal ? 3 : 7);
    EXPECT_NEAR(found.heads[0].sum(Statistic::marked_weight), causal ? 0.5 + 1.0 / 3 + 0.5 : 4 * 0.5, 1e-6);
    EXPECT_NEAR(found.chance.first, causal ? (1 + 1 + 0.5 + 0.5 + 2.0 / 3 + 0.25) / 7 : (1 + 1) / 7.0, 1e-12);
    EXPECT_EQ(found.heads[0].argmax_keys.size(), 7u);
    EXPECT_EQ(found.heads[0].sum(Statistic::rows), 7);
    EXPECT_EQ(found.chance.offsets.at(0), causal ? 3 : 7);
  }
}

// Of eight tokens with equal weights the first gets (1 + 1/2 + ... + 1/8) / 8, which is 0.34. A head that looks
// elsewhere in one sequence of two is half a sink.
TEST(Sinks, AreCountedBySequenceAndHead) {
  const auto of_eight = [](std::int32_t token) { return row_of(std::vector<std::int32_t>(8, token)); };
  Context context(1);
  std::vector<Tensor> sequences;
  sequences.push_back(of_eight(1));
  const model::Transformer blank_model = blank(model::Kind::gpt);
  EXPECT_NEAR(sink_share(context, blank_model, sequences).mean, 1, 1e-12);
  EXPECT_NEAR(sink_share(context, blank_model, sequences, 0.35).mean, 0, 1e-12);
  EXPECT_NEAR(sink_share(context, blank_model, {}).mean, 0, 1e-12);
  model::Config pruned = blank_model.config();
  pruned.layers = {{0, 0}, {1, 1}};  // a layer whose heads are all gone, and one with a single head
  EXPECT_NEAR(sink_share(context, model::Transformer(pruned, 1), sequences, 0.01).mean, 1, 1e-12);

  model::Transformer model(blank_model.config(), 7);
  for (autograd::Parameter* parameter : model.parameters()) {  // as weights are that look somewhere
    for (std::int64_t n = 0; n < count_of(parameter->value.shape()); ++n) parameter->value.as<float>()[n] *= 2;
  }
  sequences[0] = row_of({5, 1, 4, 1, 0, 2, 2, 3});
  sequences.push_back(row_of({1, 2, 3, 4, 5, 0, 1, 2, 3, 3, 1, 1, 0, 0, 4, 5}, 2));
  std::vector<double> alphas;  // of two heads of each sequence, by the weights themselves
  for (const Tensor& tokens : sequences) {
    autograd::Tape tape(context, false);
    model::PassOptions options;
    options.wants.attention.weights = true;
    model.forward(tape, tokens, options);
    const ConstTensorView weights = model.attention(tape, 0).forward.weights;  // [B,2,8,8]
    for (std::int64_t n = 0; n < 2 * tokens.shape()[0]; ++n) {
      double sum = 0;
      for (std::int64_t t = 0; t < 8; ++t) sum += static_cast<double>(weights.as<float>()[n * 64 + t * 8]);
      alphas.push_back(sum / 8);
    }
  }
  ASSERT_EQ(alphas.size(), 6u);
  std::vector<double> sorted = alphas;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t n = 0; n + 1 < 6; ++n) {
    ASSERT_GT(sorted[n + 1] - sorted[n], 1e-4) << n;
    const double epsilon = (sorted[n] + sorted[n + 1]) / 2;
    std::vector<double> shares;
    for (std::size_t at = 0; at < 6; at += 2) {
      shares.push_back(static_cast<double>((alphas[at] > epsilon) + (alphas[at + 1] > epsilon)) / 2);
    }
    const Estimate found = sink_share(context, model, sequences, epsilon), expected = estimate(shares);
    EXPECT_NEAR(found.mean, static_cast<double>(5 - n) / 6, 1e-12) << n;
    EXPECT_NEAR(found.low, expected.low, 1e-12) << n;
    EXPECT_NEAR(found.high, expected.high, 1e-12) << n;
  }
}

// Equal weights: the largest is the first of them. Token 5 is rare, 3 and 4 alike.
TEST(Rarest, TheFirstOfEquallyRareOnesAndOnlyWhereThereIsAChoice) {
  const std::vector<std::int64_t> counts{100, 100, 100, 7, 7, 3};
  const auto share = [&](const std::vector<std::int32_t>& tokens) {
    return survey_of(model::Kind::gpt, make_probe(row_of(tokens), {}, {}, 1), counts).heads[0].rarest;
  };
  EXPECT_EQ(share({3, 4, 1, 1}).hits, 2) << "3 comes first";
  EXPECT_EQ(share({3, 4, 1, 1}).count, 2) << "rows that see three keys or more";
  EXPECT_EQ(share({1, 4, 3, 1}).hits, 0) << "4 and 3 are rarer than what is looked at";
  EXPECT_EQ(share({4, 1, 1, 5}).hits, 1) << "the last row sees 5";
  EXPECT_EQ(survey_of(model::Kind::gpt, make_probe(row_of({3, 4, 1, 1}), {}, {}, 1)).heads[0].rarest.count, 0);
}

TEST(Targets, AreThoseOfTheDefinition) {
  //                          0  1  2  3  4  5  6  7  8
  const Tensor tokens = row_of({1, 2, 3, 4, 1, 5, 2, 2, 1});
  const Probe probe = make_probe(tokens, {}, {3}, 9);
  const auto slot = [&](std::int64_t i, Slot s) { return probe.targets.as<std::int32_t>()[4 * i + s]; };
  for (const std::int64_t i : {0, 1, 2, 3, 5}) {
    for (const Slot s : {kDuplicate, kInduction, kOffByOne, kChance}) EXPECT_EQ(slot(i, s), -1) << i << ": new";
  }
  EXPECT_EQ(slot(4, kDuplicate), 0);
  EXPECT_EQ(slot(4, kInduction), 1);
  EXPECT_EQ(slot(4, kOffByOne), 2);
  EXPECT_EQ(slot(6, kDuplicate), 1);
  EXPECT_EQ(slot(6, kInduction), 2);
  EXPECT_EQ(slot(7, kDuplicate), -1) << "it has two places before";
  EXPECT_EQ(slot(8, kInduction), -1) << "as well";
  for (const std::int64_t i : {4, 6}) {
    EXPECT_GE(slot(i, kChance), 0);
    EXPECT_LT(slot(i, kChance), i);
  }
  EXPECT_TRUE(probe.separators.as<bool>()[2]);
  EXPECT_FALSE(probe.separators.as<bool>()[3]);
  // Right behind itself: what follows is the row's own key, and there is nothing one further.
  const Probe close = make_probe(row_of({1, 1, 2, 3}), {}, {}, 1);
  EXPECT_EQ(close.targets.as<std::int32_t>()[4 + kInduction], 1);
  EXPECT_EQ(close.targets.as<std::int32_t>()[4 + kOffByOne], -1);
  // One between: the key one further would be the row's own, which a head that is one off does not look at.
  const Probe near = make_probe(row_of({1, 2, 1, 3}), {}, {}, 1);
  EXPECT_EQ(near.targets.as<std::int32_t>()[8 + kInduction], 1);
  EXPECT_EQ(near.targets.as<std::int32_t>()[8 + kOffByOne], -1);
  // Two between: it is the last key before the row.
  const Probe further = make_probe(row_of({1, 2, 3, 1}), {}, {}, 1);
  EXPECT_EQ(further.targets.as<std::int32_t>()[12 + kInduction], 1);
  EXPECT_EQ(further.targets.as<std::int32_t>()[12 + kOffByOne], 2);
}

TEST(Repeats, AreSegmentsOfEveryLengthRepeatedToTheEnd) {
  RepeatProbe options{.alphabet = {1, 2, 3, 4, 5, 6, 7, 8}, .beginning = {0}, .batch = 200, .length = 20};
  options.shortest = 3;
  options.longest = 6;
  const Probe probe = make_repeats(options);
  std::map<std::int64_t, int> lengths;
  std::set<std::int32_t> chances;
  for (std::int64_t b = 0; b < 200; ++b) {
    const std::int32_t* row = probe.tokens.as<std::int32_t>() + b * 20;
    EXPECT_EQ(row[0], 0);
    const std::int64_t length = std::find(row + 2, row + 20, row[1]) - row - 1;
    ++lengths[length];
    EXPECT_EQ((std::set<std::int32_t>(row + 1, row + 1 + length).size()), static_cast<std::size_t>(length));
    for (std::int64_t t = 1 + length; t < 20; ++t) EXPECT_EQ(row[t], row[t - length]);
    chances.insert(probe.targets.as<std::int32_t>()[(b * 20 + 1 + length) * 4 + kChance]);
    EXPECT_LT(probe.targets.as<std::int32_t>()[(b * 20 + 1 + length) * 4 + kChance], 1 + length) << "before the query";
  }
  EXPECT_EQ(lengths.size(), 4u) << "3, 4, 5 and 6";
  for (const auto& [length, count] : lengths) EXPECT_GT(count, 20) << length;
  EXPECT_GT(chances.size(), 3u) << "any key before";
  options.seed = 2;
  EXPECT_FALSE(std::equal(probe.tokens.as<std::int32_t>(), probe.tokens.as<std::int32_t>() + 4000,
                          make_repeats(options).tokens.as<std::int32_t>()));
}

// As many as asked for, none twice, with segments from an eighth to a half of the length.
TEST(Repeats, FillSeveralProbes) {
  RepeatProbe options{.beginning = {0}, .batch = 8, .length = 40, .seed = 3};
  for (std::int32_t token = 1; token < 40; ++token) options.alphabet.push_back(token);
  const std::vector<Probe> probes = make_repeats(options, 20);
  ASSERT_EQ(probes.size(), 3u);
  std::set<std::vector<std::int32_t>> rows;
  std::set<std::int64_t> lengths;
  for (const Probe& probe : probes) {
    const std::int64_t B = probe.tokens.shape()[0];
    EXPECT_EQ(B, &probe == &probes[2] ? 4 : 8);
    for (const std::int32_t* row = probe.tokens.as<std::int32_t>(); row < probe.tokens.as<std::int32_t>() + B * 40;
         row += 40) {
      EXPECT_TRUE(rows.emplace(row, row + 40).second);
      lengths.insert(std::find(row + 2, row + 40, row[1]) - row - 1);
    }
  }
  EXPECT_GE(*lengths.begin(), 5);
  EXPECT_LT(*lengths.begin(), 9);
  EXPECT_LE(*lengths.rbegin(), 20);
  EXPECT_GT(*lengths.rbegin(), 16);
}

}  // namespace
}  // namespace polyhead::heads
