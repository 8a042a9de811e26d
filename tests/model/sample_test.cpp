// What a language model says next: the likeliest token, or a draw that follows the model's probabilities.
#include "model/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "io/scratch.h"
#include "ops/sample.h"

namespace polyhead::model {
namespace {

using Tokens = std::vector<std::int32_t>;

Config small(Kind kind = Kind::gpt) {
  Config config = make_config(kind, 1, 8, 2);
  config.vocabulary = 5;
  config.context = 6;
  config.classes = kind == Kind::classifier ? 2 : 0;
  return config;
}

class Sample : public ::testing::Test {
 protected:
  std::int32_t next(const Tokens& tokens, const Sampling& sampling, std::uint64_t index = 0) {
    return next_token(context_, model_, tokens, sampling, index);
  }
  std::vector<double> logits(const Tokens& tokens) {
    autograd::Tape tape(context_, false);
    const ConstTensorView input(tokens.data(), {1, std::ssize(tokens)});
    const ConstTensorView all = tape.value(model_.forward(tape, input));
    const float* last = all.as<float>() + (std::ssize(tokens) - 1) * 5;
    return {last, last + 5};
  }

  Context context_{1};
  Transformer model_{small(), 3};
};

TEST_F(Sample, LogitsMustBeFinite) {
  const Tensor draws = Tensor::zeros({2}, DType::f64);
  Tensor tokens = Tensor::zeros({2}, DType::i32);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const std::int64_t place : {0, 4, 5, 9}) {
      Tensor logits = Tensor::zeros({2, 5}, DType::f32);
      logits.as<float>()[place] = bad;
      for (const double temperature : {0.0, 1.0}) {
        io::expect_error(ErrorCode::input, {"[draw]", "logits are not finite"},
                         [&] { ops::sample(context_, "draw", logits, {.temperature = temperature}, draws, tokens); });
      }
    }
  }
}

TEST_F(Sample, TemperatureZeroTakesTheLikeliest) {
  const Tokens tokens{1, 2, 3};
  const std::vector<double> found = logits(tokens);
  const auto likeliest = std::max_element(found.begin(), found.end()) - found.begin();
  EXPECT_EQ(next(tokens, {.temperature = 0}), likeliest);
  EXPECT_EQ(next(tokens, {.temperature = 1e-6}), likeliest);
}

TEST_F(Sample, DrawsFollowTheProbabilities) {
  const Tokens tokens{1, 2, 3};
  constexpr double kTemperature = 0.5;
  constexpr int kDraws = 4000;
  std::vector<double> share(5, 0.0), expected;
  for (int n = 0; n < kDraws; ++n) {
    share[static_cast<std::size_t>(
        next(tokens, {.temperature = kTemperature, .seed = 9}, static_cast<std::uint64_t>(n)))] += 1.0 / kDraws;
  }
  for (const double logit : logits(tokens)) expected.push_back(std::exp(logit / kTemperature));
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  for (std::size_t v = 0; v < 5; ++v) {
    const double p = expected[v] / sum;
    EXPECT_NEAR(share[v], p, 5 * std::sqrt(p * (1 - p) / kDraws)) << v;
  }
}

// Only the likeliest tokens are drawn, all of them, and each as often as its share of what is left says.
TEST_F(Sample, DrawsFromTheLikeliestOnly) {
  const Tokens tokens{1, 2, 3};
  const std::vector<double> found = logits(tokens);
  std::vector<std::size_t> order{0, 1, 2, 3, 4};
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return found[a] > found[b]; });
  std::vector<double> share;  // of the likeliest, summed up
  double sum = 0;
  for (const std::size_t token : order) share.push_back(sum += std::exp(found[token]));
  for (double& each : share) each /= sum;
  const auto expect_first = [&](std::size_t count, Sampling sampling) {
    constexpr int kDraws = 1000;
    sampling.seed = 9;
    std::vector<int> drawn(5, 0);
    for (int n = 0; n < kDraws; ++n) {
      ++drawn[static_cast<std::size_t>(next(tokens, sampling, static_cast<std::uint64_t>(n)))];
    }
    for (std::size_t n = 0; n < 5; ++n) {
      const double p = n >= count ? 0 : (share[n] - (n == 0 ? 0 : share[n - 1])) / share[count - 1];
      EXPECT_NEAR(drawn[order[n]], p * kDraws, 5 * std::sqrt(p * (1 - p) * kDraws)) << "the likeliest but " << n;
    }
  };
  expect_first(1, {.top_k = 1});
  expect_first(3, {.top_k = 3});
  expect_first(5, {.top_k = 50});
  expect_first(1, {.top_p = 1e-9});
  expect_first(2, {.top_p = (share[0] + share[1]) / 2});
  expect_first(4, {.top_p = (share[2] + share[3]) / 2});
  const double of_three = (share[0] + share[1]) / 2 / share[2];  // top_p counts within top_k
  expect_first(2, {.top_k = 3, .top_p = of_three});
}

// Where all are equally likely, the first of them are what is drawn from.
TEST_F(Sample, OfEqualTokensTheLowerNumbersComeFirst) {
  Tensor& output = model_.parameters().back()->value;
  std::fill_n(output.as<float>(), count_of(output.shape()), 0.0f);
  ASSERT_EQ(logits({1, 2, 3}), std::vector<double>(5, 0.0));
  for (const Sampling& sampling : {Sampling{.top_k = 2}, Sampling{.top_p = 0.39}}) {
    std::vector<int> drawn(5, 0);
    for (std::uint64_t n = 0; n < 50; ++n) ++drawn[static_cast<std::size_t>(next({1, 2, 3}, sampling, n))];
    EXPECT_GT(drawn[0], 10);
    EXPECT_GT(drawn[1], 10);
    EXPECT_EQ(drawn[0] + drawn[1], 50);
  }
}

// The share of a token begins where that of the one before it ends.
TEST_F(Sample, ADrawAtAnEdgeIsOfTheNextToken) {
  Tensor logits = Tensor::zeros({6, 4}, DType::f32), draws = Tensor::zeros({6}, DType::f64),
         tokens = Tensor::zeros({6}, DType::i32);
  const double at[] = {0, 0.25, 0.5, 0.75, std::nextafter(0.25, 0), std::nextafter(1.0, 0)};
  std::copy(std::begin(at), std::end(at), draws.as<double>());
  ops::sample(context_, "draw", logits, {.temperature = 1}, draws, tokens);
  const Tokens found(tokens.as<std::int32_t>(), tokens.as<std::int32_t>() + 6);
  EXPECT_EQ(found, (Tokens{0, 1, 2, 3, 0, 3}));
}

TEST_F(Sample, OnlyWhatTheContextHoldsCounts) {
  const Tokens longer{4, 4, 0, 1, 2, 3, 4, 0}, tail(longer.end() - 6, longer.end());
  for (std::uint64_t index = 0; index < 20; ++index) {
    EXPECT_EQ(next(longer, {.seed = 2}, index), next(tail, {.seed = 2}, index));
  }
}

// Every kind of positions, layers with grouped heads, with a window and without heads, beyond the end of the context.
std::vector<Config> remembering() {
  std::vector<Config> all;
  for (const Positions positions : {Positions::learned, Positions::sinusoidal, Positions::rotary}) {
    Config config = make_config(Kind::gpt, 3, 16, 4);
    config.vocabulary = 11;
    config.context = 12;
    config.positions = positions;
    config.layers[1] = {0, 0};
    config.layers[2].kv_heads = 2;
    if (positions == Positions::rotary) {
      config.feed_forward = FeedForward::swiglu;
      config.layers[2].window = 4;
      config.rotary_scaling.factor = 2;
    }
    all.push_back(config);
  }
  Config& gemma = all.emplace_back(all.back());
  gemma.norm = Norm::rms;
  gemma.bias = false;
  gemma.feed_forward = FeedForward::geglu;
  gemma.sandwich = gemma.qk_norm = true;
  gemma.local_rotary_base = 30;
  gemma.attention_scale = 0.4;
  gemma.attention_softcap = 3;
  gemma.logit_softcap = 5;
  gemma.embedding_scale = 4;
  return all;
}

TEST(Generator, SaysWhatPassesOverEverythingSay) {
  Context context(2);
  for (const Config& config : remembering()) {
    const Transformer model(config, 7);
    for (const double temperature : {0.0, 1.5}) {
      const Sampling sampling{.temperature = temperature, .seed = 4, .top_k = 7, .top_p = 0.9};
      Tokens tokens{3, 1, 4};
      Generator generator(context, model, {tokens}, sampling);
      for (std::uint64_t n = 0; n < 20; ++n) {
        const std::int32_t expected = next_token(context, model, tokens, sampling, n);
        ASSERT_EQ(generator.next(), Tokens{expected}) << "token " << n;
        tokens.push_back(expected);
      }
    }
  }
}

TEST(Generator, TakesPromptsOfDifferentLengths) {
  Context context(2);
  for (const Config& config : remembering()) {
    const Transformer model(config, 7);
    std::vector<Tokens> prompts{{3}, {1, 4, 1, 5, 9}, {2, 6}};
    Generator together(context, model, prompts, {.temperature = 0});
    std::vector<Tokens> found(3), alone(3);
    for (int n = 0; n < 18; ++n) {
      const std::vector<std::int32_t> next = together.next();
      for (std::size_t b = 0; b < 3; ++b) found[b].push_back(next[b]);
    }
    for (std::size_t b = 0; b < 3; ++b) {
      Generator one(context, model, {prompts[b]}, {.temperature = 0});
      for (int n = 0; n < 18; ++n) alone[b].push_back(one.next()[0]);
      EXPECT_EQ(found[b], alone[b]) << b;
    }
  }
}

// The same prompt twice is two texts, not one.
TEST(Generator, EverySequenceDrawsForItself) {
  Context context(1);
  const Transformer model(remembering()[0], 7);
  Generator generator(context, model, {{3, 1}, {3, 1}}, {.temperature = 2, .seed = 4});
  Tokens first, second;
  for (int n = 0; n < 16; ++n) {
    const Tokens next = generator.next();
    first.push_back(next[0]);
    second.push_back(next[1]);
  }
  EXPECT_NE(first, second);
  Generator alone(context, model, {{3, 1}}, {.temperature = 2, .seed = 4});
  for (const std::int32_t token : first) EXPECT_EQ(alone.next(), Tokens{token}) << "whoever else is there";
}

TEST(Generator, RefusesGradientsAndMoreThanThereIsRoomFor) {
  Context context(1);
  const Config config = remembering()[0];
  const Transformer model(config, 7);
  KvCaches caches(context, model, 1, 4);
  const Tokens tokens(5, 1);
  autograd::Tape recording(context), tape(context, false);
  const auto refusal = [&](autograd::Tape& on, const Dims& shape) -> std::string {
    try {
      model.forward(on, ConstTensorView(tokens.data(), shape), {.caches = &caches});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(recording, {1, 2}),
            "[forward] no gradient goes through the KV cache; use a tape that does not record");
  for (const Dims& shape : {Dims{1, 5}, Dims{2, 2}}) {
    EXPECT_EQ(
        refusal(tape, shape),
        "[forward] tokens: expected [1,T] with T up to the 4 that there is room for, found i32 " + to_string(shape));
  }
  EXPECT_EQ(caches.length(), 0);
  EXPECT_THROW(Generator(context, model, {{}}, {}), Error);
}

TEST_F(Sample, RefusesWhatCannotGoOn) {
  EXPECT_THROW(next({}, {}), Error);
  EXPECT_THROW(next({1}, {.top_k = -1}), Error);
  EXPECT_THROW(next({1}, {.top_p = 0}), Error);
  EXPECT_THROW(next({1}, {.top_p = 1.5}), Error);
  Transformer classifier(small(Kind::classifier));
  EXPECT_THROW(next_token(context_, classifier, Tokens{1}, {}, 0), Error);
  model_.parameters().back()->value.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(next({1}, {}), Error);
}

}  // namespace
}  // namespace polyhead::model
