// Scores are what the logits say, counted by hand.
#include "model/score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace polyhead::model {
namespace {

constexpr std::int64_t B = 3, T = 4, V = 5;

Config tiny(Kind kind) {
  Config config = make_config(kind, 1, 8, 2);
  config.vocabulary = V;
  config.context = T;
  config.classes = kind == Kind::classifier ? V : 0;
  return config;
}

Tensor numbers(const Dims& shape, const std::vector<std::int32_t>& values) {
  Tensor tensor = Tensor::empty(shape, DType::i32);
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return tensor;
}
const std::vector<std::int32_t> kTokens{1, 2, 3, 4, 0, 0, 1, 3, 2, 4, 4, 1};

// One sequence with all targets, one with one, one with none.
std::vector<Examples> examples() {
  std::vector<Examples> made;
  made.push_back({numbers({B, T}, kTokens), numbers({B, T}, {2, 3, 4, 0, -1, -1, 3, -1, -1, -1, -1, -1}), {}});
  return made;
}

TEST(Score, IsWhatTheLogitsSay) {
  Context context(1);
  const Transformer model(tiny(Kind::gpt), 3);
  const std::vector<Examples> some = examples();
  autograd::Tape tape(context, false);
  const ConstTensorView logits = tape.value(model.forward(tape, some[0].tokens));
  const SequenceScores found = score(context, model, some);
  std::int64_t right = 0, all = 0;
  double losses = 0;
  for (std::int64_t b = 0; b < B; ++b) {
    double loss = 0, logit = 0;
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int32_t target = some[0].targets.as<std::int32_t>()[b * T + t];
      if (target < 0) continue;
      const float* row = logits.as<float>() + (b * T + t) * V;
      double sum = 0;
      for (std::int64_t v = 0; v < V; ++v) sum += std::exp(static_cast<double>(row[v]));
      loss += std::log(sum) - static_cast<double>(row[target]);
      logit += static_cast<double>(row[target]) - std::accumulate(row, row + V, 0.0) / V;
      right += std::max_element(row, row + V) - row == target;
      ++count;
    }
    const auto n = static_cast<std::size_t>(b);
    EXPECT_EQ(found.counts[n], count);
    EXPECT_NEAR(found.losses[n], count == 0 ? 0 : loss / static_cast<double>(count), 1e-5);
    EXPECT_NEAR(found.logits[n], count == 0 ? 0 : logit / static_cast<double>(count), 1e-5);
    losses += loss;
    all += count;
  }
  EXPECT_EQ(all, 5);
  EXPECT_EQ(found.accuracy(), static_cast<double>(right) / static_cast<double>(all)) << "over targets";
  EXPECT_NEAR(found.mean_loss(), losses / static_cast<double>(all), 1e-5) << "over targets, as perplexity has it";
  EXPECT_NO_THROW(found.expect_finite("the model"));
}

// So many words that the logits of all rows are not made at once.
TEST(Score, OfManyWordsIsWhatAllLogitsSay) {
  Config config = tiny(Kind::gpt);
  config.vocabulary = (1 << 21) + 5;
  Context context(2);
  const Transformer model(config, 3);
  std::vector<Examples> some = examples();
  for (std::int64_t n = 0; n < B * T; ++n)
    some[0].targets.as<std::int32_t>()[n] += static_cast<std::int32_t>(n % 3) << 20;
  autograd::Tape tape(context, false);
  const autograd::Variable logits = model.forward(tape, some[0].tokens);
  some[0].targets.as<std::int32_t>()[7] =
      static_cast<std::int32_t>(std::max_element(tape.value(logits).as<float>() + 7 * config.vocabulary,
                                                 tape.value(logits).as<float>() + 8 * config.vocabulary) -
                                tape.value(logits).as<float>() - 7 * config.vocabulary);
  SequenceScores expected;
  add_scores(tape, logits, some[0], expected);
  const SequenceScores found = score(context, model, some);
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.logits, expected.logits);
  EXPECT_EQ(found.counts, expected.counts);
  EXPECT_EQ(found.right, expected.right);
  EXPECT_EQ(std::accumulate(found.right.begin(), found.right.end(), std::int64_t{0}), 1);
}

TEST(Score, OfAClassifierHasOneTargetASequence) {
  Context context(1);
  const Transformer model(tiny(Kind::classifier), 3);
  std::vector<Examples> some;
  some.push_back({numbers({B, T}, kTokens), numbers({B}, {0, 1, 2}), numbers({B}, {4, 2, 1})});
  const SequenceScores found = score(context, model, some);
  EXPECT_EQ(found.counts, (std::vector<std::int64_t>{1, 1, 1}));
  autograd::Tape tape(context, false);
  const ConstTensorView logits = tape.value(model.forward(tape, some[0].tokens, {.lengths = some[0].lengths}));
  for (std::int64_t b = 0; b < B; ++b) {
    const float* row = logits.as<float>() + b * V;
    EXPECT_EQ(found.right[static_cast<std::size_t>(b)], std::max_element(row, row + V) - row == b);
  }
}

// NaN is larger than nothing, so the first class would be the largest.
TEST(Score, WhatIsNoNumberIsNeverRight) {
  Context context(1);
  Transformer model(tiny(Kind::gpt), 3);
  Tensor& output = model.parameters().back()->value;
  std::fill_n(output.as<float>(), count_of(output.shape()), std::numeric_limits<float>::quiet_NaN());
  std::vector<Examples> some;
  some.push_back({numbers({B, T}, kTokens), numbers({B, T}, std::vector<std::int32_t>(B * T, 0)), {}});
  const SequenceScores found = score(context, model, some);
  EXPECT_EQ(found.accuracy(), 0);
  EXPECT_THROW(found.expect_finite("the model"), Error);
}

TEST(Score, TargetsOfAnotherKindOfModelAreNamed) {
  Context context(1);
  const auto message = [&](Kind kind, const Dims& targets, const Dims& lengths) -> std::string {
    std::vector<Examples> some;
    some.push_back({numbers({B, T}, kTokens), Tensor::zeros(targets, DType::i32), Tensor::zeros(lengths, DType::i32)});
    try {
      score(context, Transformer(tiny(kind), 3), some);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message(Kind::gpt, {B}, {B}),
            "[score] targets: expected i32 [3,4], found i32 [3]; a language model takes the token that comes next at "
            "every place, -1 where none counts");
  EXPECT_EQ(message(Kind::classifier, {B, T}, {B}),
            "[score] targets: expected i32 [3], found i32 [3,4]; a classifier takes the class of each sequence");
  EXPECT_EQ(message(Kind::gpt, {B, T}, {T}), "[score] lengths: expected [3], found i32 [4]");
}

TEST(Score, AnEncoderHasNone) {
  Context context(1);
  const Transformer model(tiny(Kind::encoder), 3);
  EXPECT_THROW(score(context, model, examples()), Error);
}

}  // namespace
}  // namespace polyhead::model
