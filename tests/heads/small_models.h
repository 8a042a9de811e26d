// Small models whose heads do something, and sequences for them.
#pragma once

#include "model/transformer.h"
#include "support/random.h"

namespace polyhead::heads {

inline model::Config small(std::int64_t heads, std::int64_t kv_heads, bool bias) {
  model::Config config = model::make_config(model::Kind::gpt, 2, 16, heads);
  for (model::LayerHeads& layer : config.layers) layer.kv_heads = kv_heads;
  config.vocabulary = 11;
  config.context = 12;
  config.hidden = 20;
  config.bias = bias;
  return config;
}

inline model::Transformer stirred(const model::Config& config) {
  model::Transformer model(config, 3);
  test::Random random("stirred");
  for (autograd::Parameter* parameter : model.parameters()) test::fill_normal(parameter->value, random, 0.3);
  return model;
}

inline Examples examples(const model::Config& config, const char* name) {
  test::Random random(name);
  Examples some{Tensor::empty({6, 12}, DType::i32), Tensor::empty({6, 12}, DType::i32), Tensor()};
  for (const TensorView& tensor : {some.tokens.view(), some.targets.view()}) {
    test::fill_with(tensor, [&] { return static_cast<double>(random.below(config.vocabulary)); });
  }
  return some;
}

inline std::vector<double> logits(model::Transformer& model, const Examples& some, std::vector<Tensor>* gates,
                                  std::vector<Tensor>* shifts = nullptr) {
  Context context(2);
  autograd::Tape tape(context, false);
  const ConstTensorView found = tape.value(model.forward(tape, some.tokens, {.gates = gates, .shifts = shifts}));
  return {found.as<float>(), found.as<float>() + found.count()};
}

}  // namespace polyhead::heads
