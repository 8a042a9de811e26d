// Models: gradients of every parameter and gate are slopes, for every kind of part; gates do what they say.
#include "model/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "model/memory.h"
#include "support/bits.h"
#include "support/random.h"

namespace polyhead::model {
namespace {

using autograd::Parameter;
using autograd::Tape;

Tensor tokens_for(const Config& config, std::int64_t batch, std::int64_t length) {
  Tensor tokens = Tensor::empty({batch, length}, DType::i32);
  test::Random random("tokens");
  test::fill_with(tokens.view(), [&] { return static_cast<double>(random.below(config.vocabulary)); });
  return tokens;
}

// Larger weights than a model begins with, so that attention is not uniform and slopes are not tiny.
void stir(Transformer& model) {
  test::Random random("stir");
  for (Parameter* parameter : model.parameters()) test::fill_normal(parameter->value, random, 0.4);
}

std::vector<Tensor> gates_of(const Config& config, std::int64_t batch, double value) {
  std::vector<Tensor> gates;
  for (const LayerHeads& layer : config.layers) {
    gates.push_back(layer.heads == 0 ? Tensor() : Tensor::empty({batch, layer.heads}, DType::f64));
    if (layer.heads > 0) test::fill_with(gates.back().view(), [&] { return value; });
  }
  return gates;
}

struct Case {
  const char* name;
  std::function<void(Config&)> change;
};
const Case kCases[] = {
    {"gpt", [](Config&) {}},
    {"attention_only",
     [](Config& c) {
       c.feed_forward = FeedForward::none;
       c.norm = Norm::none;
       c.bias = false;
     }},
    {"llama_like",
     [](Config& c) {
       c.positions = Positions::rotary;
       c.norm = Norm::rms;
       c.feed_forward = FeedForward::swiglu;
       c.bias = false;
       c.layers = {{4, 2}, {4, 1}};
     }},
    {"sinusoidal_tied",
     [](Config& c) {
       c.positions = Positions::sinusoidal;
       c.tied = true;
     }},
    {"pruned",
     [](Config& c) {
       c.layers = {{0, 0}, {3, 3}};
     }},
    {"dropout", [](Config& c) { c.dropout = 0.2; }},
    {"parallel",
     [](Config& c) {
       c.parallel = true;
       c.feed_forward = FeedForward::erf_gelu;
       c.positions = Positions::rotary;
       c.head_dim = 6;
       c.rotary_dim = 4;
       c.rotary_scaling = {.factor = 2, .slow = 0.1, .fast = 0.5, .context = 4};
     }},
    {"post_norm",
     [](Config& c) {
       c.post_norm = c.embedding_norm = true;
       c.layers[1].window = 2;
     }},
    {"gemma_like",
     [](Config& c) {
       c.positions = Positions::rotary;
       c.norm = Norm::rms;
       c.feed_forward = FeedForward::geglu;
       c.bias = false;
       c.sandwich = c.qk_norm = c.tied = true;
       c.layers = {{4, 2, 2}, {4, 1}};
       c.local_rotary_base = 7;
       c.attention_scale = 0.6;
       c.attention_softcap = 2;
       c.logit_softcap = 3;
       c.embedding_scale = 1.7;
     }},
    {"sandwich_pruned",
     [](Config& c) {
       c.norm = Norm::rms;
       c.sandwich = true;
       c.layers = {{0, 0}, {3, 3}};
     }},
    {"classifier",
     [](Config& c) {
       c.kind = Kind::classifier;
       c.classes = 3;
     }},
};

class Models : public ::testing::TestWithParam<Case> {
 protected:
  Models() {
    config_ = make_config(Kind::gpt, 2, 8, 4);
    config_.vocabulary = 7;
    config_.context = 6;
    config_.hidden = 5;
    GetParam().change(config_);
    model_ = std::make_unique<Transformer>(config_, 3, DType::f64);
    stir(*model_);
    tokens_ = tokens_for(config_, kBatch, 5);
    const bool classifier = config_.kind == Kind::classifier;
    targets_ = Tensor::zeros(classifier ? Dims{kBatch} : Dims{kBatch, 5}, DType::i32);
    test::Random random("targets");
    test::fill_with(targets_.view(), [&] { return static_cast<double>(random.below(config_.outputs())); });
    if (!classifier) targets_.as<std::int32_t>()[3] = -1;
    lengths_ = Tensor::empty({kBatch}, DType::i32);
    for (std::int32_t b = 0; b < kBatch; ++b) lengths_.as<std::int32_t>()[b] = 5 - b;
  }

  double loss(Tape& tape, std::vector<Tensor>* gates, bool gate_gradients = false) {
    tape.clear();
    PassOptions options{.training = true, .seed = 5, .gates = gates, .gate_gradients = gate_gradients};
    if (config_.kind == Kind::classifier) options.lengths = lengths_;
    return autograd::cross_entropy(tape, model_->forward(tape, tokens_, options), targets_, ops::Share::sequences)
        .read()
        .loss;
  }

  static constexpr std::int32_t kBatch = 3;
  Config config_;
  std::unique_ptr<Transformer> model_;
  Tensor tokens_, targets_, lengths_;
  Context context_{2};
};
INSTANTIATE_TEST_SUITE_P(Kinds, Models, ::testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(Models, GradientsAreSlopes) {
  Tape tape(context_);
  std::vector<Tensor> gates = gates_of(config_, kBatch, 0.8);
  constexpr double kStep = 2e-6;
  const auto expect_slope = [&](double& at, double gradient, const std::string& what) {
    const double before = at;
    at = before + kStep;
    const double above = loss(tape, &gates);
    at = before - kStep;
    const double below = loss(tape, &gates);
    at = before;
    EXPECT_NEAR(gradient, (above - below) / (2 * kStep), 1e-7) << what;
  };
  loss(tape, &gates, true);
  tape.backward();
  std::vector<std::vector<double>> dgates;
  for (std::size_t layer = 0; layer < gates.size(); ++layer) {
    dgates.emplace_back();
    if (config_.layers[layer].heads == 0) continue;
    const Tensor& found = model_->attention(tape, layer).gradients.dgates;
    for (std::int64_t n = 0; gates[layer].present() && n < count_of(gates[layer].shape()); ++n) {
      dgates.back().push_back(found.as<double>()[n]);
    }
  }
  for (Parameter* parameter : model_->parameters()) {
    const std::int64_t count = count_of(parameter->value.shape());
    for (std::int64_t n = 0; n < count; n += std::max<std::int64_t>(1, count / 7)) {
      expect_slope(parameter->value.as<double>()[n], tape.gradients().of(*parameter).as<double>()[n], parameter->name);
    }
  }
  for (std::size_t layer = 0; layer < gates.size(); ++layer) {
    for (std::size_t n = 0; n < dgates[layer].size(); ++n) {
      expect_slope(gates[layer].as<double>()[n], dgates[layer][n], "gate " + std::to_string(n));
    }
  }
}

// With all gates of a layer shut, what it adds to the residual stream is b_O: the same as a layer without heads.
TEST(Gates, AllShutLeaveTheBias) {
  Context context(1);
  Config config = make_config(Kind::gpt, 2, 8, 4);
  config.vocabulary = 7;
  config.context = 6;
  Transformer whole(config, 3, DType::f64);
  stir(whole);
  config.layers[0] = {0, 0};
  Transformer without(config, 3, DType::f64);
  for (Parameter* parameter : without.parameters()) {
    for (Parameter* other : whole.parameters()) {
      if (other->name != parameter->name) continue;
      std::copy_n(other->value.as<double>(), count_of(other->value.shape()), parameter->value.as<double>());
    }
  }
  const Tensor tokens = tokens_for(config, 2, 6);
  std::vector<Tensor> gates(2);
  gates[0] = Tensor::zeros({4}, DType::f64);
  Tape tape(context, false), other(context, false);
  const ConstTensorView shut = tape.value(whole.forward(tape, tokens, {.gates = &gates}));
  const ConstTensorView gone = other.value(without.forward(other, tokens));
  for (std::int64_t n = 0; n < shut.count(); ++n) {
    EXPECT_NEAR(shut.as<double>()[n], gone.as<double>()[n], 1e-13);
  }
}

TEST(Model, IsTheSameForAnyNumberOfThreads) {
  Config config = make_config(Kind::gpt, 2, 64, 4);
  config.vocabulary = 50;
  config.context = 40;
  const Tensor tokens = tokens_for(config, 16, 40);
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 5}) {
    Context context(threads);
    Transformer model(config, 3);
    Tape tape(context);
    autograd::cross_entropy(tape, model.forward(tape, tokens), tokens);
    tape.backward();
    std::vector<Tensor> now;
    for (Parameter* parameter : model.parameters()) now.push_back(std::move(tape.gradients().of(*parameter)));
    if (first.empty()) first = std::move(now);
    for (std::size_t n = 0; n < now.size(); ++n) EXPECT_TRUE(test::same_bits("gradient", first[n], now[n])) << n;
  }
}

// A model whose blocks add nothing but what dropout leaves of a constant; the logits are the residual stream.
class Dropped : public ::testing::Test {
 protected:
  static constexpr std::int64_t kWidth = 16, kTokens = 8;
  static constexpr double kDrop = 0.5;

  Transformer& make(std::int64_t layers, bool feed_forward) {
    Config config = make_config(Kind::gpt, layers, kWidth, 2);
    config.vocabulary = kWidth;
    config.context = kTokens;
    config.norm = Norm::none;
    config.positions = Positions::none;
    config.feed_forward = feed_forward ? FeedForward::gelu : FeedForward::none;
    config.dropout = kDrop;
    model_.emplace(config);
    for (autograd::Parameter* parameter : model_->parameters()) fill(parameter->value, 0);
    for (std::int64_t c = 0; c < kWidth; ++c) named("output.weight").as<float>()[c * kWidth + c] = 1;
    return *model_;
  }
  Tensor& named(const std::string& name) {
    for (autograd::Parameter* parameter : model_->parameters()) {
      if (parameter->name == name) return parameter->value;
    }
    throw std::logic_error(name);
  }
  static void fill(Tensor& tensor, float value) { std::fill_n(tensor.as<float>(), count_of(tensor.shape()), value); }
  // [tokens, width]
  std::vector<float> stream(std::uint64_t seed, bool training = true) {
    Context context(1);
    Tape tape(context, false);
    const Tensor tokens = Tensor::zeros({1, kTokens}, DType::i32);
    const ConstTensorView found = tape.value(model_->forward(tape, tokens, {.training = training, .seed = seed}));
    return {found.as<float>(), found.as<float>() + found.count()};
  }
  static std::set<float> values(const std::vector<float>& all) { return {all.begin(), all.end()}; }

  std::optional<Transformer> model_;
};

TEST_F(Dropped, OutputsOfLayersHaveMasksOfTheirOwn) {
  make(2, false);
  for (const char* layer : {"0", "1"}) fill(named("blocks." + std::string(layer) + ".attention.out_proj.bias"), 1);
  EXPECT_EQ(values(stream(1)), (std::set<float>{0, 2, 4}))
      << "none, one, or both: one mask for both would give 0 and 4";
  EXPECT_NE(stream(1), stream(2)) << "another step";
  EXPECT_EQ(stream(1), stream(1));
  EXPECT_EQ(values(stream(1, false)), (std::set<float>{2})) << "off when it is not training";
}

TEST_F(Dropped, FeedForwardAndAttentionHaveMasksOfTheirOwn) {
  make(1, true);
  fill(named("blocks.0.attention.out_proj.bias"), 1);
  fill(named("blocks.0.feed_forward.down.bias"), 1);
  EXPECT_EQ(values(stream(1)), (std::set<float>{0, 2, 4}));
  make(2, true);
  for (const char* layer : {"0", "1"}) fill(named("blocks." + std::string(layer) + ".feed_forward.down.bias"), 1);
  EXPECT_EQ(values(stream(1)), (std::set<float>{0, 2, 4}));
}

// Values are 1 and attention is even, so that a head's output is the share of keys that were kept.
TEST_F(Dropped, WeightsOfLayersHaveMasksOfTheirOwn) {
  make(2, false);
  for (const char* layer : {"0", "1"}) {
    const std::string name = "blocks." + std::string(layer) + ".attention.";
    Tensor& bias = named(name + "in_proj_bias");
    std::fill_n(bias.as<float>() + 2 * kWidth, kWidth, 1.0f);
    for (std::int64_t c = 0; c < kWidth; ++c) named(name + "out_proj.weight").as<float>()[c * kWidth + c / 8 * 8] = 1;
  }
  int differing = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<float> all = stream(seed);
    for (std::size_t at = 0; at < all.size(); at += 8) {  // a row of a head: first, second, both; or one and both
      std::set<float> found(all.begin() + static_cast<std::ptrdiff_t>(at),
                            all.begin() + static_cast<std::ptrdiff_t>(at + 8));
      found.erase(0.0f);
      differing += found.size() == 3;
    }
  }
  EXPECT_GT(differing, 20) << "with the same masks it would be none";
}

// A pass belongs to its tape: threads share a model, each with a context and a tape of its own.
TEST(Model, ServesSeveralThreadsAtOnce) {
  Config config = make_config(Kind::gpt, 2, 32, 4);
  config.vocabulary = 20;
  config.context = 12;
  const Transformer model(config, 3);
  const auto pass = [&](std::int64_t batch) {
    Context context(2);
    Tape tape(context);
    const Tensor tokens = tokens_for(config, batch, 12);
    std::vector<Tensor> results;
    for (int again = 0; again < 3; ++again) {
      tape.clear();
      PassOptions options;
      options.wants.attention.statistics = StatisticsSet::light;
      const autograd::Variable logits = model.forward(tape, tokens, options);
      autograd::cross_entropy(tape, logits, tokens);
      tape.backward();
      results.clear();
      results.push_back(clone(context, tape.value(logits)));
      results.push_back(clone(context, model.attention(tape, 1).forward.statistics));
      results.push_back(clone(context, tape.gradients().of(*model.parameters()[2])));
    }
    return results;
  };
  std::vector<std::vector<Tensor>> alone, together(4);
  for (std::int64_t batch = 1; batch <= 4; ++batch) alone.push_back(pass(batch));
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] { together[n] = pass(static_cast<std::int64_t>(n) + 1); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t n = 0; n < 4; ++n) {
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(test::same_bits("pass", together[n][i], alone[n][i]));
  }
}

TEST(Model, RefusesWhatDoesNotFit) {
  const auto expect_value = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::value) << error.what();
    }
  };
  expect_value([] { make_config(Kind::gpt, 2, 10, 4); });
  expect_value([] { make_config(Kind::gpt, 0, 8, 4); });
  Config config = make_config(Kind::gpt, 2, 8, 4);
  config.vocabulary = 7;
  config.context = 6;
  EXPECT_NO_THROW(check(config));
  Config wrong = config;
  wrong.layers[1].kv_heads = 3;
  expect_value([&] { check(wrong); });
  expect_value([&] { Transformer{wrong}; });
  wrong = config;
  wrong.kind = Kind::classifier;
  expect_value([&] { check(wrong); });
  wrong = config;
  wrong.dropout = 1;
  expect_value([&] { check(wrong); });
  for (const double base : {0.5, -1.0, std::numeric_limits<double>::infinity()}) {
    wrong = config;
    wrong.local_rotary_base = base;
    expect_value([&] { check(wrong); });
  }
  wrong = config;
  wrong.context = wrong.width = (std::int64_t{1} << 31) - 1;
  expect_value([&] { Transformer{wrong}; });  // the memory for it is not there, and not asked for
  Context context(1);
  Tape tape(context);
  Transformer model(config);
  const Tensor tokens = tokens_for(config, 1, 7);
  EXPECT_THROW(model.forward(tape, tokens), Error);
}

// Mean, spread and kurtosis of 70,001 numbers, which several threads draw as one does.
TEST(Model, WeightsAreDrawnWithTheSameSpread) {
  Config config = make_config(Kind::gpt, 1, 1, 1);
  config.vocabulary = 70001;
  config.context = 1;
  config.tied = false;
  for (const auto& [from, kurtosis] : {std::pair{Drawn::normal, 3.0}, {Drawn::uniform, 1.8}}) {
    const auto drawn = [&](std::uint64_t seed, int threads) {
      Transformer model(config, seed, DType::f32, host_allocator(), threads, from);
      const float* numbers = model.parameters()[0]->value.as<float>();
      return std::vector<float>(numbers, numbers + config.vocabulary);
    };
    const std::vector<float> numbers = drawn(3, 1);
    double sum = 0, squares = 0, fourths = 0;
    for (const double x : numbers) {
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
    const auto count = static_cast<double>(numbers.size());
    EXPECT_NEAR(sum / count, 0, 0.003);
    EXPECT_NEAR(std::sqrt(squares / count), 0.2, 0.002);
    EXPECT_NEAR(fourths * count / (squares * squares), kurtosis, 0.1);
    EXPECT_EQ(numbers, drawn(3, 3));
    EXPECT_NE(numbers, drawn(4, 1));
  }
}

TEST_P(Models, ParametersAreCountedWithoutMakingThem) {
  EXPECT_EQ(parameter_count(config_), static_cast<double>(Transformer(config_).parameter_count()));
  config_.layers[0].heads = config_.layers[0].kv_heads = 0;  // as pruning may leave it
  EXPECT_EQ(parameter_count(config_), static_cast<double>(Transformer(config_).parameter_count()));
}

}  // namespace
}  // namespace polyhead::model
