// A small GPT in training, from weights and batches that a formula gives, so that bench/torch_gpt.py can train the
// same.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/numbers.h"
#include "model/transformer.h"
#include "train/optimiser.h"

namespace polyhead::test {

struct TrainingSizes {
  std::int64_t layers, width, heads, tokens, batch;
};

inline constexpr std::int64_t kTrainingVocabulary = 64, kTrainingBatches = 16;  // they come again and again

// Number `place`, from 0, of the stream that a seed gives: SplitMix64, the upper 24 bits.
inline std::uint32_t stream_bits(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = (place + 1 + (seed << 32)) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 40);
}

// Numbers of variance 1, times 0.02, around 1 for the factors of norms: in f32, whatever the parameter's type is, so
// that models of both types begin at one place.
inline void fill_parameter(autograd::Parameter& parameter, std::uint64_t seed) {
  const float middle = parameter.name.ends_with("norm.weight") ? 1.0f : 0.0f;
  Tensor made = Tensor::empty(parameter.value.shape(), parameter.value.dtype());
  for (std::int64_t i = 0; i < count_of(made.shape()); ++i) {
    const auto bits = static_cast<float>(stream_bits(seed, static_cast<std::uint64_t>(i)));
    const float unit = (bits * 0x1p-23f - 1.0f) * 1.7320508f, small = unit * 0.02f, value = middle + small;
    if (made.dtype() == DType::f64) {
      made.as<double>()[i] = static_cast<double>(value);
    } else {
      made.as<float>()[i] = value;
    }
  }
  parameter.value = moved_to(parameter.value.allocator(), std::move(made));
}

struct TrainingBatch {
  Tensor tokens, targets;  // i32 [B,T]
};

// Three tokens of four follow from the one before, so that there is something to learn.
inline TrainingBatch make_training_batch(const TrainingSizes& sizes, std::int64_t number) {
  const std::int64_t B = sizes.batch, T = sizes.tokens;
  TrainingBatch made{Tensor::empty({B, T}, DType::i32), Tensor::empty({B, T}, DType::i32)};
  for (std::int64_t b = 0; b < B; ++b) {
    std::int64_t token = 0;
    for (std::int64_t t = 0; t <= T; ++t) {
      const std::int64_t bits =
          stream_bits(static_cast<std::uint64_t>(1000 + number), static_cast<std::uint64_t>(b * (T + 1) + t));
      token = (bits % 4 != 0 ? 5 * token + 17 : bits / 4) % kTrainingVocabulary;
      if (t < T) made.tokens.as<std::int32_t>()[b * T + t] = static_cast<std::int32_t>(token);
      if (t > 0) made.targets.as<std::int32_t>()[b * T + t - 1] = static_cast<std::int32_t>(token);
    }
  }
  return made;
}

// Learned positions, LayerNorm, GELU, biases, an output of its own; AdamW at a constant rate after clipping at 1.
class TrainingRun {
 public:
  TrainingRun(Context& context, const TrainingSizes& sizes, DType dtype)
      : context_(context),
        model_(config_of(sizes), 0, dtype, context.allocator()),
        optimiser_(model_.parameters(), {.rule = {.beta2 = 0.99, .decay = 0.01}, .clip = 1}),
        tape_(context) {
    std::uint64_t seed = 100;
    for (autograd::Parameter* parameter : model_.parameters()) fill_parameter(*parameter, seed++);
    for (std::int64_t n = 0; n < kTrainingBatches; ++n) batches_.push_back(make_training_batch(sizes, n));
  }

  // The loss before the step.
  double step() {
    const TrainingBatch& batch =
        batches_[static_cast<std::size_t>(optimiser_.steps_taken()) % static_cast<std::size_t>(kTrainingBatches)];
    tape_.clear();
    const autograd::Variable logits = model_.forward(tape_, batch.tokens, {.training = true});
    const autograd::Loss loss = autograd::cross_entropy(tape_, logits, tape_.here(batch.targets));
    tape_.backward();
    const double norm = optimiser_.norm(context_, tape_.gradients()), found = loss.read().loss;
    optimiser_.step(context_, tape_.gradients(), norm, kRate);
    return found;
  }

  std::vector<double> losses(int steps) {
    std::vector<double> all(static_cast<std::size_t>(steps));
    for (double& loss : all) loss = step();
    return all;
  }

 private:
  static constexpr double kRate = 1e-3;

  static model::Config config_of(const TrainingSizes& sizes) {
    model::Config config = model::make_config(model::Kind::gpt, sizes.layers, sizes.width, sizes.heads);
    config.vocabulary = kTrainingVocabulary;
    config.context = sizes.tokens;
    return config;
  }

  Context& context_;
  model::Transformer model_;
  train::Optimiser optimiser_;
  autograd::Tape tape_;
  std::vector<TrainingBatch> batches_;
};

}  // namespace polyhead::test
