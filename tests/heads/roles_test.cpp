// Heads whose weights are written by hand do what the detectors say they do, and their controls do not.
#include "heads/roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "io/scratch.h"

namespace polyhead::heads {
namespace {

constexpr std::int64_t kVocabulary = 24, kContext = 32, kWidth = kVocabulary + 2 * kContext;

// One-hot tokens and positions in a residual stream [token | position | room for the token before], no norm and no
// feed-forward: attention is then what W_Q and W_K say. One layer of one head of the full width, or two.
class ByHand {
 public:
  explicit ByHand(std::size_t layers) : model_(config(layers)) {
    for (autograd::Parameter* parameter : model_.parameters()) {
      std::fill_n(parameter->value.as<float>(), count_of(parameter->value.shape()), 0.0f);
    }
    for (std::int64_t v = 0; v < kVocabulary; ++v) at("tokens.weight", v, v) = 1;
    for (std::int64_t t = 0; t < kContext; ++t) at("positions.weight", t, kVocabulary + t) = 1;
  }

  // query row n = sharp * stream[from + n], key row n = stream[to + n], for `count` rows.
  void match(int layer, std::int64_t from, std::int64_t to, std::int64_t count, float sharp = 200) {
    const std::string name = "blocks." + std::to_string(layer) + ".attention.in_proj_weight";
    for (std::int64_t n = 0; n < count; ++n) {
      at(name, n, from + n) = sharp;
      at(name, kWidth + n, to + n) = 1;
    }
  }
  // Every token looks for this one.
  void ask(int layer, std::int64_t token) {
    for (std::int64_t v = 0; v < kVocabulary; ++v) {
      at("blocks." + std::to_string(layer) + ".attention.in_proj_weight", 0, v) = 200;
    }
    at("blocks." + std::to_string(layer) + ".attention.in_proj_weight", kWidth, token) = 1;
  }
  // What is attended to writes its token into the room for the token before, in the first kVocabulary columns there.
  void copy_token(int layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".attention.";
    for (std::int64_t v = 0; v < kVocabulary; ++v) {
      at(name + "in_proj_weight", 2 * kWidth + v, v) = 1;
      at(name + "out_proj.weight", kRoom + v, v) = 1;
    }
  }

  model::Transformer& model() { return model_; }
  static constexpr std::int64_t kRoom = kVocabulary + kContext;

 private:
  static model::Config config(std::size_t layers) {
    model::Config made = model::make_config(model::Kind::gpt, static_cast<std::int64_t>(layers), kWidth, 1);
    made.vocabulary = kVocabulary;
    made.context = kContext;
    made.norm = model::Norm::none;
    made.feed_forward = model::FeedForward::none;
    made.bias = false;
    return made;
  }
  float& at(const std::string& name, std::int64_t row, std::int64_t column) {
    for (autograd::Parameter* parameter : model_.parameters()) {
      if (parameter->name == name) return parameter->value.as<float>()[row * parameter->value.shape()[1] + column];
    }
    throw std::logic_error(name);
  }

  model::Transformer model_;
};

RepeatProbe repeat_options() {
  RepeatProbe options{.batch = 16, .length = kContext, .shortest = 5, .longest = 12, .seed = 3};
  options.alphabet.resize(kVocabulary - 1);
  std::iota(options.alphabet.begin(), options.alphabet.end(), 1);
  options.beginning = {0};
  return options;
}

std::vector<Probe> repeats(const RepeatProbe& options) {
  std::vector<Probe> probes;
  probes.push_back(make_repeats(options));
  return probes;
}

std::string role_of(model::Transformer& model, const std::vector<Probe>& probes, std::size_t head) {
  Context context(2);
  const Survey found = survey(context, model, probes);
  const std::vector<HeadRoles> all = roles(found, found);
  const RoleScore* role = all[head].role();
  return role == nullptr ? "none" : role->role;
}

TEST(Roles, PreviousToken) {
  ByHand hand(1);
  hand.match(0, kVocabulary + 1, kVocabulary, kContext - 1);  // position t looks for position t - 1
  EXPECT_EQ(role_of(hand.model(), repeats(repeat_options()), 0), "previous token");
}

TEST(Roles, AFixedOffsetThatIsNotThePreviousOne) {
  ByHand hand(1);
  hand.match(0, kVocabulary + 3, kVocabulary, kContext - 3);
  Context context(1);
  const Survey found = survey(context, hand.model(), repeats(repeat_options()));
  const std::vector<HeadRoles> all = roles(found, found);
  const RoleScore* role = all[0].role();
  ASSERT_NE(role, nullptr);
  EXPECT_EQ(role->role, "positional");
  EXPECT_EQ(role->note, "offset -3");
}

TEST(Roles, Duplicate) {
  ByHand hand(1);
  hand.match(0, 1, 1, kVocabulary - 1, 200);  // the same token; itself among them, which takes half
  Context context(1);
  const Survey found = survey(context, hand.model(), repeats(repeat_options()));
  EXPECT_GT(found.heads[0].target(kDuplicate), 0.3);
  EXPECT_LT(found.heads[0].target(kInduction), 0.05);
  EXPECT_EQ(role_of(hand.model(), repeats(repeat_options()), 0), "duplicate");
}

// Two layers by the book: the first writes the token before into the stream, the second looks for it.
TEST(Roles, InductionTakesTwoLayers) {
  ByHand hand(2);
  hand.match(0, kVocabulary + 1, kVocabulary, kContext - 1);
  hand.copy_token(0);
  hand.match(1, 1, ByHand::kRoom + 1, kVocabulary - 1);
  EXPECT_EQ(role_of(hand.model(), repeats(repeat_options()), 0), "previous token");
  EXPECT_EQ(role_of(hand.model(), repeats(repeat_options()), 1), "induction");
}

// The look-alike: it finds where the token stood and looks two further, at what a detector that is one off would want.
TEST(Roles, OneFurtherThanInductionIsNoInduction) {
  ByHand hand(2);
  hand.match(0, kVocabulary + 2, kVocabulary, kContext - 2);
  hand.copy_token(0);
  hand.match(1, 1, ByHand::kRoom + 1, kVocabulary - 1);
  Context context(1);
  const Survey found = survey(context, hand.model(), repeats(repeat_options()));
  EXPECT_GT(found.heads[1].target(kOffByOne), 0.5);
  const std::vector<HeadRoles> all = roles(found, found);
  EXPECT_FALSE(all[1].score_in("induction")->holds());
  EXPECT_FALSE(all[1].score_in("duplicate")->holds());
}

// A head that looks a fixed distance back scores as induction where all segments have one length, and nowhere else.
TEST(Roles, TheControlOfFixedLengthFoolsOnlyTheNaive) {
  RepeatProbe fixed = repeat_options();
  fixed.shortest = fixed.longest = 10;
  ByHand hand(1);
  hand.match(0, kVocabulary + 9, kVocabulary, kContext - 9);
  Context context(1);
  const Survey naive = survey(context, hand.model(), repeats(fixed));
  EXPECT_GT(naive.heads[0].target(kInduction), 0.9);
  const Survey ours = survey(context, hand.model(), repeats(repeat_options()));
  EXPECT_LT(ours.heads[0].target(kInduction), 0.3);
  EXPECT_EQ(role_of(hand.model(), repeats(repeat_options()), 0), "positional");
}

TEST(Roles, AHeadThatPrefersNothingAverages) {
  ByHand nothing(1);
  EXPECT_EQ(role_of(nothing.model(), repeats(repeat_options()), 0), "averaging");
}

// Sequences of one token at the beginning, a special one or a separator within, and others. Whichever a head asks for
// is its role: three things, three names.
TEST(Roles, FirstTokenSpecialTokenAndSeparatorAreThreeThings) {
  constexpr std::int32_t kFirstToken = 0, kSeparator = 1, kSpecialToken = 2;
  const Probe plain = make_repeats(repeat_options());
  Tensor tokens = Tensor::empty({16, kContext}, DType::i32);
  std::copy_n(plain.tokens.as<std::int32_t>(), 16 * kContext, tokens.as<std::int32_t>());
  std::replace_if(
      tokens.as<std::int32_t>(), tokens.as<std::int32_t>() + 16 * kContext,
      [](std::int32_t token) { return token == kSeparator || token == kSpecialToken; }, 3);
  for (std::int64_t b = 0; b < 16; ++b) {
    for (const std::int64_t t : {2, 9, 17}) tokens.as<std::int32_t>()[b * kContext + t] = kSeparator;
    tokens.as<std::int32_t>()[b * kContext + 5] = kSpecialToken;
  }
  Context context(1);
  for (const auto& [asked, role] :
       {std::pair(kFirstToken, "first token"), {kSeparator, "separator"}, {kSpecialToken, "special token"}}) {
    ByHand hand(1);
    hand.ask(0, asked);
    std::vector<Probe> probes;
    // That the first token is special, as a BOS is, or a separator, changes nothing.
    probes.push_back(make_probe(tokens, {}, {kSeparator, kFirstToken}, 1, {kSpecialToken, kFirstToken}));
    EXPECT_EQ(role_of(hand.model(), probes, 0), role);
    // The look-alike asks for a word.
    ByHand other(1);
    other.ask(0, 5);
    const Survey found = survey(context, other.model(), probes);
    EXPECT_FALSE(roles(found, found)[0].score_in(role)->holds()) << role;
  }
}

TEST(Roles, RelationsAgainstTheBestOffset) {
  ByHand hand(1);
  hand.match(0, kVocabulary + 1, kVocabulary, kContext - 1);
  std::vector<Probe> probes = repeats(repeat_options());
  for (std::int64_t b = 0; b < 16; ++b) {
    probes[0].relations.push_back({b, 10, 9, "near"});  // always one back: an offset does as well
    probes[0].relations.push_back({b, 20 + b % 8, 19 + b % 8, "far"});
    probes[0].relations.push_back({b, 20, 4 + b % 8, "wandering"});
  }
  Context context(1);
  const Survey found = survey(context, hand.model(), probes);
  EXPECT_EQ(found.heads[0].relations.at("near").value(), 1);
  EXPECT_EQ(found.chance.relations.at("near"), 1);
  EXPECT_EQ(found.heads[0].relations.at("wandering").value(), 0);
  EXPECT_NEAR(found.chance.relations.at("wandering"), 0.125, 1e-12);
  const std::vector<HeadRoles> all = roles(found, found);
  for (const RoleScore& score : all[0].scores) {
    const bool relation = score.role == "near" || score.role == "wandering";
    EXPECT_FALSE(relation && score.holds()) << score.role;
  }
}

// Of a model that reads texts roles must beat what other orders of its layers give. Induction is gone there; a head
// that looks for the first token's embedding, or for the position before, does so in any place, so that is no role.
TEST(Roles, WhatEveryOrderOfTheLayersShowsIsNone) {
  const auto role_in = [](ByHand& hand, std::size_t head, bool of_texts) {
    Probes probes{repeats(repeat_options()), repeats(repeat_options()), {}, of_texts};
    Context context(1);
    const std::vector<HeadRoles> all = survey_roles(context, hand.model(), probes).roles;
    return all[head].role() == nullptr ? std::string("none") : all[head].role()->role;
  };
  ByHand induction(2);
  induction.match(0, kVocabulary + 1, kVocabulary, kContext - 1);
  induction.copy_token(0);
  induction.match(1, 1, ByHand::kRoom + 1, kVocabulary - 1);
  EXPECT_EQ(role_in(induction, 1, true), "induction");
  EXPECT_EQ(role_in(induction, 0, false), "previous token");
  EXPECT_EQ(role_in(induction, 0, true), "none");
  for (const std::size_t layer : {0, 1}) {
    ByHand first(2);
    first.ask(static_cast<int>(layer), 0);
    EXPECT_EQ(role_in(first, layer, false), "first token");
    EXPECT_EQ(role_in(first, layer, true), "none");
  }
  ByHand alone(1);
  alone.ask(0, 0);
  EXPECT_EQ(role_in(alone, 0, true), "first token") << "one layer has no other order";
}

TEST(Roles, NoLayerKeepsItsPlaceInAnotherOrder) {
  EXPECT_TRUE(other_orders(1, 8, 1).empty());
  EXPECT_TRUE(other_orders(0, 8, 1).empty());
  std::set<std::vector<std::size_t>> orders;
  for (const std::vector<std::size_t>& order : other_orders(6, 8, 1)) {
    orders.insert(order);
    EXPECT_EQ((std::set<std::size_t>(order.begin(), order.end()).size()), 6u);
    for (std::size_t n = 0; n < 6; ++n) EXPECT_NE(order[n], n);
  }
  EXPECT_GT(orders.size(), 6u);
  EXPECT_NE(other_orders(6, 8, 2), other_orders(6, 8, 1));
}

// Layers are run in the order asked for: the same as a model whose layers were exchanged.
TEST(Survey, InAnotherOrderIsThatOfTheLayersExchanged) {
  ByHand hand(2), exchanged(2);
  hand.match(0, kVocabulary + 1, kVocabulary, kContext - 1);
  hand.copy_token(0);
  hand.match(1, 1, ByHand::kRoom + 1, kVocabulary - 1);
  exchanged.match(1, kVocabulary + 1, kVocabulary, kContext - 1);
  exchanged.copy_token(1);
  exchanged.match(0, 1, ByHand::kRoom + 1, kVocabulary - 1);
  Context context(1);
  autograd::Tape tape(context, false);
  const std::vector<Probe> probes = repeats(repeat_options());
  const std::vector<std::size_t> order{1, 0};
  const Survey a = survey(tape, hand.model(), probes, {}, {.order = &order}),
               b = survey(context, exchanged.model(), probes);
  for (const std::size_t n : {0, 1}) {
    EXPECT_EQ(a.heads[n].sums, b.heads[1 - n].sums);
    EXPECT_EQ(a.heads[n].argmax_keys, b.heads[1 - n].argmax_keys);
  }
}

TEST(Roles, AnUntrainedModelAverages) {
  model::Config config = model::make_config(model::Kind::gpt, 2, 64, 8);
  config.vocabulary = kVocabulary;
  config.context = kContext;
  model::Transformer model(config, 5);
  Context context(2);
  const Survey found = survey(context, model, repeats(repeat_options()));
  for (const HeadRoles& head : roles(found, found)) {
    ASSERT_NE(head.role(), nullptr);
    EXPECT_EQ(head.role()->role, "averaging") << to_string(head.id);
  }
}

// Padding changes nothing: the rows behind a sequence's end are no rows.
TEST(Survey, OfPaddedSequencesIsThatOfTheSequences) {
  model::Config config = model::make_config(model::Kind::gpt, 2, 32, 4);
  config.vocabulary = kVocabulary;
  config.context = kContext;
  for (const model::Kind kind : {model::Kind::gpt, model::Kind::classifier}) {
    config.kind = kind;
    config.classes = kind == model::Kind::classifier ? 3 : 0;
    model::Transformer model(config, 5);
    Context context(2);
    const Probe plain = make_repeats(repeat_options());
    Tensor padded = Tensor::zeros({16, kContext}, DType::i32), lengths = Tensor::empty({16}, DType::i32);
    std::fill_n(lengths.as<std::int32_t>(), 16, 20);
    Tensor cut = Tensor::empty({16, 20}, DType::i32);
    for (std::int64_t b = 0; b < 16; ++b) {
      std::copy_n(plain.tokens.as<std::int32_t>() + b * kContext, 20, padded.as<std::int32_t>() + b * kContext);
      std::copy_n(plain.tokens.as<std::int32_t>() + b * kContext, 20, cut.as<std::int32_t>() + b * 20);
    }
    std::vector<Probe> with, without;
    with.push_back(make_probe(padded, lengths, {}, 1));
    without.push_back(make_probe(cut, {}, {}, 1));
    const Survey a = survey(context, model, with), b = survey(context, model, without);
    for (std::size_t n = 0; n < a.heads.size(); ++n) {
      for (std::size_t f = 0; f < a.heads[n].sums.size(); ++f) {
        EXPECT_NEAR(a.heads[n].sums[f], b.heads[n].sums[f], 1e-2) << n << " " << f;
      }
      EXPECT_EQ(a.heads[n].argmax_keys, b.heads[n].argmax_keys);
    }
  }
}

// Sums are added up over sequences and probes; of the largest logit the largest stays.
TEST(Survey, OfTwoProbesIsBothTogether) {
  model::Config config = model::make_config(model::Kind::gpt, 1, 32, 2);
  config.vocabulary = kVocabulary;
  config.context = kContext;
  model::Transformer model(config, 5);
  Context context(1);
  RepeatProbe options = repeat_options();
  std::vector<Probe> one = repeats(options), both = repeats(options);
  options.seed = 8;
  const std::vector<Probe> other = repeats(options);
  both.push_back(make_repeats(options));
  const Survey a = survey(context, model, one), b = survey(context, model, other), all = survey(context, model, both);
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t f = 0; f < all.heads[n].sums.size(); ++f) {
      const double x = a.heads[n].sums[f], y = b.heads[n].sums[f];
      const bool largest = f == static_cast<std::size_t>(Statistic::max_logit);
      EXPECT_NEAR(all.heads[n].sums[f], largest ? std::max(x, y) : x + y, 1e-6 * std::abs(x + y)) << f;
    }
    EXPECT_EQ(all.heads[n].argmax_keys.size(), a.heads[n].argmax_keys.size() + b.heads[n].argmax_keys.size());
  }
  EXPECT_EQ(all.chance.rows, a.chance.rows + b.chance.rows);
}

TEST(Probe, RefusesWhatCannotBe) {
  io::expect_error(ErrorCode::value,
                   {"expected an alphabet, segments of 1 token or more and room after the beginning, found 3 "
                    "tokens, segments of 5 to 4, 7 tokens of room"},
                   [] {
                     make_repeats({.alphabet = {1, 2, 3}, .beginning = {0}, .length = 8, .shortest = 5, .longest = 4});
                   });
  EXPECT_THROW(make_repeats({}), Error);
  RepeatProbe options = repeat_options();
  options.longest = options.shortest - 1;
  EXPECT_THROW(make_repeats(options), Error);
  options = repeat_options();
  options.length = 1;
  EXPECT_THROW(make_repeats(options), Error) << "the beginning takes all of it";
}

TEST(Agreement, IsTheShareOfRowsThatLookAtTheSameKey) {
  Survey two;
  two.heads.resize(2);
  two.heads[0].argmax_keys = {0, 1, 2, 3};
  two.heads[1].argmax_keys = {0, 1, 0, 0};
  EXPECT_EQ(agreement(two)[0][1], 0.5);
  EXPECT_EQ(agreement(two)[1][1], 1);
  two.heads[1].argmax_keys = {0, 1, 5, 1};
  EXPECT_EQ(agreement(two)[0][1], 0.5) << "a key further on is another key";
  EXPECT_EQ(agreement(two)[1][0], 0.5);
}

}  // namespace
}  // namespace polyhead::heads
