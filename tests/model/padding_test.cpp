// Batches of sequences of different lengths, padded on the right or on the left, beside the same sequences alone. In
// double, where nothing but rounding may differ.
#include <gtest/gtest.h>

#include <map>

#include "model/decoding.h"
#include "model/transformer.h"

namespace polyhead::model {
namespace {

constexpr std::int64_t kLongest = 9, kLengths[] = {4, kLongest, 1}, kBatch = std::size(kLengths);

Config with(Kind kind, const std::function<void(Config&)>& change) {
  Config config = make_config(kind, 2, 24, 4);
  config.vocabulary = 17;
  config.context = 12;
  config.classes = kind == Kind::classifier ? 3 : 0;
  change(config);
  return config;
}

std::map<std::string, Config> language_models() {
  return {{"learned positions", with(Kind::gpt, [](Config&) {})},
          {"rotary, a window, grouped heads", with(Kind::gpt,
                                                   [](Config& config) {
                                                     config.positions = Positions::rotary;
                                                     config.norm = Norm::rms;
                                                     config.qk_norm = true;
                                                     for (LayerHeads& layer : config.layers) layer.kv_heads = 2;
                                                     config.layers[1].window = 3;
                                                   })},
          {"sinusoids, parallel", with(Kind::gpt, [](Config& config) {
             config.positions = Positions::sinusoidal;
             config.parallel = true;
           })}};
}

// Sequence b of a batch, before or behind its padding.
Tensor batch_of(bool left) {
  Tensor tokens = Tensor::empty({kBatch, kLongest}, DType::i32);
  std::fill_n(tokens.as<std::int32_t>(), kBatch * kLongest, 16);  // a token like others
  for (std::int64_t b = 0; b < kBatch; ++b) {
    const std::int64_t first = left ? kLongest - kLengths[b] : 0;
    for (std::int64_t t = 0; t < kLengths[b]; ++t) {
      tokens.as<std::int32_t>()[b * kLongest + first + t] = static_cast<std::int32_t>((5 * b + 3 * t) % 16);
    }
  }
  return tokens;
}
Tensor alone(std::int64_t b) {
  Tensor tokens = Tensor::empty({1, kLengths[b]}, DType::i32);
  std::copy_n(batch_of(false).as<std::int32_t>() + b * kLongest, kLengths[b], tokens.as<std::int32_t>());
  return tokens;
}

void expect_near(const double* found, const double* expected, std::int64_t count, const std::string& name) {
  for (std::int64_t n = 0; n < count; ++n) ASSERT_NEAR(found[n], expected[n], 1e-12) << name << ", number " << n;
}

TEST(Padding, OnTheRight) {
  std::map<std::string, Config> configs = language_models();
  configs["encoder"] = with(Kind::encoder, [](Config& config) { config.post_norm = config.embedding_norm = true; });
  configs["classifier"] = with(Kind::classifier, [](Config&) {});
  Context context(1);
  Tensor lengths = Tensor::empty({kBatch}, DType::i32);
  for (std::int64_t b = 0; b < kBatch; ++b) lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(kLengths[b]);
  for (const auto& [name, config] : configs) {
    const Transformer model(config, 1, DType::f64);
    autograd::Tape tape(context, false), one(context, false);
    const Tensor tokens = batch_of(false);
    const ConstTensorView padded = tape.value(model.forward(tape, tokens, {.lengths = lengths}));
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const Tensor own = alone(b);
      const ConstTensorView expected = one.value(model.forward(one, own));
      expect_near(padded.as<double>() + b * padded.stride(0), expected.as<double>(), expected.count(), name);
    }
  }
}

// What a language model reads before it goes on; then a token more for each.
TEST(Padding, OnTheLeft) {
  Context context(1);
  for (const auto& [name, config] : language_models()) {
    const Transformer model(config, 1, DType::f64);
    autograd::Tape tape(context, false), one(context, false);
    KvCaches caches(context, model, kBatch, config.context);
    std::vector<std::int32_t> padding;
    for (const std::int64_t length : kLengths) padding.push_back(static_cast<std::int32_t>(kLongest - length));
    caches.clear(context, padding);
    const Tensor tokens = batch_of(true), more = Tensor::zeros({kBatch, 1}, DType::i32);
    const ConstTensorView padded = tape.value(model.forward(tape, tokens, {.caches = &caches}));
    const ConstTensorView next = tape.value(model.forward(tape, more, {.caches = &caches}));
    for (std::int64_t b = 0; b < kBatch; ++b) {
      Tensor own = Tensor::zeros({1, kLengths[b] + 1}, DType::i32);  // with the token more
      std::copy_n(alone(b).as<std::int32_t>(), kLengths[b], own.as<std::int32_t>());
      const ConstTensorView expected = one.value(model.forward(one, own));
      const std::int64_t V = config.vocabulary, first = kLongest - kLengths[b];
      expect_near(padded.as<double>() + b * padded.stride(0) + first * V, expected.as<double>(), kLengths[b] * V, name);
      expect_near(next.as<double>() + b * next.stride(0), expected.as<double>() + kLengths[b] * V, V, name + ", next");
    }
  }
}

}  // namespace
}  // namespace polyhead::model
