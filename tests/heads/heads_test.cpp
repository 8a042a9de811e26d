// polyhead/model.h and polyhead/heads.h: the same numbers as behind them, and errors instead of surprises.
#include "polyhead/heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "heads/pruning.h"
#include "heads/survey.h"
#include "io/scratch.h"
#include "model/score.h"
#include "support/bits.h"
#include "support/induction_model.h"

namespace polyhead {
namespace {

constexpr std::int64_t kTokens = 20;

// 0, then 1 to 5 over and over; the next token counts from the second time on.
Examples counting(std::int64_t batch) {
  Examples some{Tensor::empty({batch, kTokens}, DType::i32), Tensor::empty({batch, kTokens}, DType::i32), {}};
  for (std::int64_t n = 0; n < batch * kTokens; ++n) {
    const std::int64_t b = n / kTokens, t = n % kTokens;
    some.tokens.as<std::int32_t>()[n] = t == 0 ? 0 : static_cast<std::int32_t>(1 + (b + t) % 5);
    some.targets.as<std::int32_t>()[n] = t < 6 ? -1 : static_cast<std::int32_t>(1 + (b + t + 1) % 5);
  }
  return some;
}

std::vector<Examples> examples() {
  std::vector<Examples> made;
  made.push_back(counting(4));
  return made;
}

class PublicModel : public testing::Test {
 protected:
  Context context{2};
  Model model{std::shared_ptr<const model::Transformer>(InductionModel::make())};
};

TEST_F(PublicModel, KnockingOutIsGoingWithout) {
  const std::vector<HeadId> dead{{0, 1}, {1, 1}}, induction{{1, 0}};
  const Tensor tokens = std::move(counting(3).tokens);
  const Tensor whole = model.forward(context, tokens);
  EXPECT_EQ(whole.shape(), (Dims{3, kTokens, InductionModel::kVocabulary}));
  EXPECT_TRUE(test::same_bits("logits", whole, model.forward(context, tokens, {.knocked_out = dead})));
  const Tensor knocked_out = model.forward(context, tokens, {.knocked_out = induction});
  EXPECT_FALSE(test::same_bits("logits", whole, knocked_out));
  EXPECT_TRUE(test::same_bits("logits", knocked_out, without_heads(model, induction).forward(context, tokens)));
  EXPECT_EQ(without_heads(model, dead).heads(), (std::vector<HeadId>{{0, 0}, {1, 0}}));
}

TEST_F(PublicModel, ScoresImportanceAndPruningAgree) {
  const std::vector<Examples> some = examples();
  const Score whole = model.score(context, some);
  EXPECT_EQ(whole.accuracy, 1);
  const std::vector<HeadImportance> heads = head_importance(context, model, some);
  ASSERT_EQ(heads.size(), 4u);
  for (const HeadImportance& head : heads) {
    const Score without = model.score(context, some, {head.id});
    EXPECT_NEAR(head.zero.mean, without.loss - whole.loss, 1e-6) << to_string(head.id);
    EXPECT_EQ(head.accuracy_loss, whole.accuracy - without.accuracy) << to_string(head.id);
  }
  const PruneCurve curve = prune(context, model, some, some);
  EXPECT_EQ(curve.removed().size(), 2u);
  EXPECT_EQ(
      curve.steps[2].accuracy,
      model.score(context, some, {curve.steps[0].removed, curve.steps[1].removed, curve.steps[2].removed}).accuracy);
}

TEST_F(PublicModel, PrunesInTheOrderAndWithinTheBudgetThatAreAskedFor) {
  const std::vector<Examples> some = examples();
  EXPECT_EQ(prune(context, model, some, some, 0).removed().size(), 2u) << "those that do nothing";
  EXPECT_EQ(prune(context, model, some, some, 1).removed().size(), 4u);
  const heads::PruneOptions random{.order = PruneOrder::random, .budget = 1};
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    heads::PruneOptions options = random;
    options.seed = seed;
    EXPECT_EQ(prune(context, model, some, some, 1, PruneOrder::random, seed).removed(),
              heads::prune(context, model.transformer(), some, some, options).removed());
  }
  EXPECT_NE(prune(context, model, some, some, 1, PruneOrder::random, 1).removed(),
            prune(context, model, some, some, 1, PruneOrder::random, 2).removed());
}

TEST_F(PublicModel, SurveyIsThatOfItsSequences) {
  const Tensor tokens = std::move(counting(40).tokens);  // more than one pass
  const std::vector<SurveyedHead> heads = survey_heads(context, model, tokens);
  ASSERT_EQ(heads.size(), 4u);
  EXPECT_EQ(heads[0].role, "previous token");
  EXPECT_EQ(heads[2].role, "induction");
  EXPECT_NEAR(heads[1].role_score, 1, 1e-5);
  EXPECT_EQ(heads[0].sums[static_cast<std::size_t>(Statistic::rows)], 40 * kTokens);
  EXPECT_GT(heads[0].mean(Statistic::previous_weight, Statistic::previous_rows), 0.99);
  EXPECT_NEAR(heads[0].sums[static_cast<std::size_t>(Statistic::max_logit)], 200 / std::sqrt(32.0), 1e-3)
      << "the largest of all sequences, not their sum";
}

// The induction model with head 0.1 as well: all tokens ask it alike, and `key` of the tokens from `first` to the one
// before `end` is what they find.
Model with_head_0_1(std::int32_t first, std::int32_t end, float key) {
  std::unique_ptr<model::Transformer> made = InductionModel::make();
  for (autograd::Parameter* parameter : made->parameters()) {
    if (parameter->name != "blocks.0.attention.in_proj_weight") continue;
    const std::int64_t D = made->config().head_dim, columns = parameter->value.shape()[1];
    float* weights = parameter->value.as<float>();
    std::fill_n(weights + D * columns, InductionModel::kVocabulary, 200.0f);
    std::fill(weights + 3 * D * columns + first, weights + 3 * D * columns + end, key);
  }
  return Model{std::shared_ptr<const model::Transformer>(std::move(made))};
}

// Separators are no rare tokens, however seldom they stand in a text: a head that looks for one looks for that.
TEST_F(PublicModel, SeparatorsAreNotRare) {
  constexpr std::int32_t kSeparator = 7;
  Tensor tokens = std::move(counting(8).tokens);
  for (std::int64_t b = 0; b < 8; ++b) {
    tokens.as<std::int32_t>()[b * kTokens] = static_cast<std::int32_t>(1 + b % 5);  // 0 would be as rare
    tokens.as<std::int32_t>()[b * kTokens + 2] = kSeparator;
  }
  const Model looks = with_head_0_1(kSeparator, kSeparator + 1, 1);
  EXPECT_EQ(survey_heads(context, looks, tokens, {.separators = {kSeparator}})[1].role, "separator");
  EXPECT_EQ(survey_heads(context, looks, tokens)[1].role, "rare token");
}

TEST_F(PublicModel, TheLargestLogitMayBeNegative) {
  const std::vector<SurveyedHead> heads =
      survey_heads(context, with_head_0_1(0, InductionModel::kVocabulary, -1), counting(4).tokens);
  EXPECT_NEAR(heads[1].sums[static_cast<std::size_t>(Statistic::max_logit)], -200 / std::sqrt(32.0), 1e-3);
}

// Sequences are read some at a time; each has the length that stands beside it.
TEST_F(PublicModel, SurveyKnowsTheLengthOfEverySequence) {
  const Tensor tokens = std::move(counting(40).tokens);
  Tensor lengths = Tensor::empty({40}, DType::i32);
  std::fill_n(lengths.as<std::int32_t>(), 32, kTokens);
  std::fill_n(lengths.as<std::int32_t>() + 32, 8, 3);
  for (const SurveyedHead& head : survey_heads(context, model, tokens, {.lengths = lengths})) {
    EXPECT_EQ(head.sums[static_cast<std::size_t>(Statistic::rows)], 32 * kTokens + 8 * 3);
  }
}

// Roles come from random segments, which begin as the sequences do: with the token that all have first, or with none.
TEST_F(PublicModel, SurveyMakesSegmentsThatBeginAsTheSequencesDo) {
  std::unique_ptr<model::Transformer> blunt = InductionModel::make();
  for (autograd::Parameter* parameter : blunt->parameters()) {  // so that a weight depends on how many keys there are
    if (!parameter->name.ends_with("in_proj_weight")) continue;
    float* weights = parameter->value.as<float>();
    std::replace(weights, weights + parameter->value.view().count(), 200.0f,
                 parameter->name.starts_with("blocks.0") ? 20.0f : 40.0f);
  }
  const model::Transformer& known = *blunt;
  const Model surveyed{std::shared_ptr<const model::Transformer>(std::move(blunt))};
  std::set<double> scores;
  for (const bool alike : {true, false}) {
    Tensor tokens = std::move(counting(8).tokens);
    if (!alike) tokens.as<std::int32_t>()[3 * kTokens] = 5;
    heads::RepeatProbe options{.alphabet = {0, 1, 2, 3, 4, 5}, .batch = 32, .length = kTokens};
    if (alike) options.beginning = {0};
    const heads::Survey repeats = heads::survey(context, known, heads::make_repeats(options, 8));
    const std::vector<SurveyedHead> found = survey_heads(context, surveyed, tokens);
    EXPECT_EQ(found[0].role, "previous token");
    EXPECT_EQ(found[0].role_score, repeats.heads[0].mean(Statistic::previous_weight, Statistic::previous_rows))
        << alike;
    EXPECT_EQ(found[2].role, "induction");
    EXPECT_EQ(found[2].role_score,
              repeats.heads[2].odds[heads::on_slot(heads::kInduction)].weight_at(heads::kStandardShare))
        << alike;
    scores.insert(found[2].role_score);
  }
  EXPECT_EQ(scores.size(), 2u) << "the beginning makes a difference";
}

// Random segments are made of tokens that occur, and not of those that may mean nothing to the model.
TEST_F(PublicModel, SurveyLooksAtNoTokenThatDoesNotOccur) {
  std::unique_ptr<model::Transformer> made = InductionModel::make();
  for (autograd::Parameter* parameter : made->parameters()) {
    if (parameter->name != "tokens.weight") continue;
    const TensorView unused = parameter->value.view().slice(0, 6, InductionModel::kVocabulary);
    std::fill_n(unused.as<float>(), unused.count(), std::nanf(""));
  }
  const Model taught{std::shared_ptr<const model::Transformer>(std::move(made))};
  Tensor tokens = std::move(counting(8).tokens), lengths = Tensor::empty({8}, DType::i32);
  EXPECT_EQ(survey_heads(context, taught, tokens)[2].role, "induction");  // tokens 0 to 5
  std::fill_n(lengths.as<std::int32_t>(), 8, kTokens - 1);
  for (std::int64_t b = 0; b < 8; ++b) tokens.as<std::int32_t>()[(b + 1) * kTokens - 1] = 7;  // padding
  EXPECT_EQ(survey_heads(context, taught, tokens, {.lengths = lengths})[2].role, "induction");
  EXPECT_THROW(survey_heads(context, taught, tokens), Error) << "here it is a token, and the model no model";
}

// Each with its own context: neither sees the other.
// Segments are made of tokens that occur: in any sequence, as long as it is.
TEST_F(PublicModel, SurveyKnowsTheTokensOfEverySequence) {
  const SurveyOptions options{.separators = {0, 1}};
  for (const std::int64_t place : {0, 3, 4, 8, 11}) {  // of three sequences of four tokens
    Tensor tokens = Tensor::zeros({3, 4}, DType::i32), lengths = Tensor::zeros({3}, DType::i32);
    tokens.as<std::int32_t>()[0] = 1;
    tokens.as<std::int32_t>()[place] = 2;
    EXPECT_NO_THROW(survey_heads(context, model, tokens, options)) << place;
    std::fill_n(lengths.as<std::int32_t>(), 3, 4);
    lengths.as<std::int32_t>()[place / 4] = static_cast<std::int32_t>(std::max<std::int64_t>(place % 4, 1));
    SurveyOptions shorter = options;
    shorter.lengths = lengths;
    if (place % 4 == 0) continue;
    io::expect_error(ErrorCode::value, {"expected an alphabet", "found 0 tokens"},
                     [&] { survey_heads(context, model, tokens, shorter); });
  }
}

TEST_F(PublicModel, ServesTwoThreadsAtOnce) {
  const Tensor tokens = std::move(counting(8).tokens);
  struct Pass {
    Tensor logits;
    std::vector<SurveyedHead> heads;
  };
  const auto pass = [&] {
    Context own(2);
    return Pass{model.forward(own, tokens), survey_heads(own, model, tokens)};
  };
  const Pass alone = pass();
  Pass together[2];
  {
    std::vector<std::jthread> threads;
    for (Pass& one : together) threads.emplace_back([&] { one = pass(); });
  }
  for (const Pass& one : together) {
    EXPECT_TRUE(test::same_bits("logits", one.logits, alone.logits));
    ASSERT_EQ(one.heads.size(), alone.heads.size());
    for (std::size_t n = 0; n < alone.heads.size(); ++n) {
      EXPECT_EQ(one.heads[n].sums, alone.heads[n].sums) << to_string(alone.heads[n].id);
      EXPECT_EQ(one.heads[n].role, alone.heads[n].role);
    }
  }
}

TEST_F(PublicModel, GeneratesForPromptsOfAnyLength) {
  using Tokens = std::vector<std::vector<std::int32_t>>;
  EXPECT_EQ(model.generate(context, {{0, 1, 2, 3, 1}, {0, 7, 8, 7}}, 3, {.temperature = 0}),
            (Tokens{{2, 3, 1}, {8, 7, 8}}));
  EXPECT_EQ(model.generate(context, {{0, 1}}, 0), Tokens{{}});
}

// Each sequence ends by itself, and is what it would be beside others that go on.
TEST_F(PublicModel, GeneratesUntilItIsTold) {
  using Tokens = std::vector<std::vector<std::int32_t>>;
  const Tokens prompts{{0, 1, 2, 3, 1}, {0, 7, 8, 7}};
  const auto until = [&](std::vector<std::int32_t> stop) {
    return model.generate(context, prompts, 4, {.temperature = 0, .stop = std::move(stop)});
  };
  EXPECT_EQ(until({}), (Tokens{{2, 3, 1, 2}, {8, 7, 8, 7}}));
  EXPECT_EQ(until({1}), (Tokens{{2, 3}, {8, 7, 8, 7}}));
  EXPECT_EQ(until({5, 7, 3}), (Tokens{{2}, {8}}));
  EXPECT_EQ(until({8, 2}), (Tokens{{}, {}}));
}

TEST_F(PublicModel, IsTheSameAfterSavingAndLoading) {
  const io::Scratch scratch;
  model.save(scratch.folder());
  const Model loaded = Model::load(scratch.folder());
  const Tensor tokens = std::move(counting(2).tokens);
  EXPECT_TRUE(test::same_bits("logits", loaded.forward(context, tokens), model.forward(context, tokens)));
  EXPECT_FALSE(loaded.is_classifier());
  EXPECT_EQ(loaded.parameter_count(), model.parameter_count());
}

TEST_F(PublicModel, RefusesWhatCannotBe) {
  using io::expect_error;
  const Tensor tokens = std::move(counting(2).tokens);
  expect_error(ErrorCode::input, {"nothing is at /nowhere", "polyhead get NAME"}, [&] { Model::load("/nowhere"); });
  expect_error(ErrorCode::value, {"knocked_out: expected", "found 2.0"}, [&] {
    model.forward(context, tokens, {.knocked_out = {{2, 0}}});
  });
  expect_error(ErrorCode::value, {"knocked_out: expected", "found 0.2"}, [&] {
    model.score(context, examples(), {{0, 2}});
  });
  expect_error(ErrorCode::value, {"heads: expected", "found 1.-1"}, [&] { without_heads(model, {{1, -1}}); });
  expect_error(ErrorCode::value, {"prompts: expected tokens from 0 to 15, found 16"}, [&] {
    model.generate(context, {{1, 16}}, 1);
  });
  expect_error(ErrorCode::value, {"prompts: expected at least one token"}, [&] { model.generate(context, {{}}, 1); });
  expect_error(ErrorCode::value, {"examples"}, [&] { head_importance(context, model, {}); });
  expect_error(ErrorCode::value, {"budget"}, [&] { prune(context, model, examples(), examples(), std::nan("")); });
  Tensor wrong = std::move(counting(2).tokens);
  wrong.as<std::int32_t>()[3] = InductionModel::kVocabulary;
  expect_error(ErrorCode::value, {"tokens", "found 16"}, [&] { survey_heads(context, model, wrong); });
  expect_error(ErrorCode::value, {"tokens: expected numbers from 0 to 15, found 16 at place 3"},
               [&] { model.forward(context, wrong); });
  Tensor lengths = Tensor::zeros({2}, DType::i32);
  lengths.as<std::int32_t>()[1] = 99;
  expect_error(ErrorCode::value, {"lengths: expected numbers from 0 to", "found 99 at place 1"},
               [&] { model.forward(context, tokens, {.lengths = lengths}); });
  const Tensor three = Tensor::zeros({3}, DType::i32);
  expect_error(ErrorCode::shape, {"lengths: expected i32 [2], found i32 [3]"},
               [&] { model.forward(context, tokens, {.lengths = three}); });
  expect_error(ErrorCode::value, {"lengths"}, [&] { survey_heads(context, model, tokens, {.lengths = lengths}); });
  expect_error(ErrorCode::shape, {"tokens"}, [&] { survey_heads(context, model, lengths); });
  const std::int64_t most = InductionModel::kContext;
  for (const std::int64_t length : {std::int64_t{1}, most + 1}) {
    const Tensor sized = Tensor::zeros({2, length}, DType::i32);
    expect_error(ErrorCode::shape, {"tokens", "from 2 to " + std::to_string(most)},
                 [&] { survey_heads(context, model, sized); });
  }
}

}  // namespace
}  // namespace polyhead
