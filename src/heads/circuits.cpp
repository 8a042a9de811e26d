#include "heads/circuits.h"

#include <string>

#include "core/numbers.h"
#include "ops/on_host.h"

namespace polyhead::heads {
namespace {

void expect_adding(const model::Config& config) {
  const auto refuse = [](const std::string& found) {
    throw Error(ErrorCode::value, "each_ov", "expected a language model whose heads add to its stream, found " + found);
  };
  if (config.kind != model::Kind::gpt) refuse("one that predicts no token");
  if (config.sandwich || config.post_norm) refuse("norms after the heads");
}

// Out of the tape, which is about to be cleared.
Tensor kept(Context& context, const autograd::Tape& tape, autograd::Variable x) {
  Tensor result = Tensor::empty(tape.value(x).shape(), tape.value(x).dtype(), context.allocator());
  copy(context, tape.value(x), result);
  return result;
}

}  // namespace

Tensor written_by(std::int64_t h, const Tensor& o, const Tensor& weight, std::int64_t head_dim) {
  const std::int64_t inner = weight.shape()[1], C = weight.shape()[0], rows = o.view().count() / inner;
  Dims shape = o.shape();
  shape[shape.rank() - 1] = C;
  Tensor written = Tensor::zeros(shape, DType::f32);
  for (std::int64_t c = 0; c < C; ++c) {
    const float* of_c = weight.as<float>() + c * inner;
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* from = o.as<float>() + row * inner;
      float& to = written.as<float>()[row * C + c];
      for (std::int64_t n = h * head_dim; n < (h + 1) * head_dim; ++n) to += from[n] * of_c[n];
    }
  }
  return written;
}

void each_ov(Context& context, const model::Transformer& model, std::span<const std::int32_t> tokens,
             const std::function<void(std::size_t, const ConstTensorView&)>& visit) {
  const model::Config& config = model.config();
  expect_adding(config);
  autograd::Tape tape(context, false);
  tape.pack_weights();
  const ConstTensorView alone(tokens.data(), {std::ssize(tokens), 1});
  const Tensor embedded = kept(context, tape, model.read(tape, alone, {}));
  tape.clear();
  const Tensor meant = kept(context, tape, model.through(tape, tape.constant(embedded), 0, 1, {}));
  std::size_t number = 0;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    if (config.layers[layer].heads == 0) continue;
    tape.clear();
    model::PassOptions options;
    options.wants.heads = true;
    model.through(tape, tape.constant(layer == 0 ? embedded : meant), layer, layer + 1, options);
    const Tensor outputs = widened(to_host(context, model.attention(tape, layer).forward.heads));
    const Tensor weight = widened(copied_to_host(model.attention_parameters(layer).out_proj_weight->value));
    for (std::int64_t h = 0; h < config.layers[layer].heads; ++h) {
      tape.clear();
      const Tensor written = written_by(h, outputs, weight, config.head_dim);
      const OnHost logits(context, tape.value(model.answer(tape, tape.constant(written), {})));
      visit(number++, logits.view());
    }
  }
}

}  // namespace polyhead::heads
