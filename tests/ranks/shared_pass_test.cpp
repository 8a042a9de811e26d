// Layers and products that ranks share: the bits of one process, forward and backward, on every rank.
#include <gtest/gtest.h>

#include <functional>

#include "ops/linear.h"
#include "ops/multihead.h"
#include "ranks/joined.h"
#include "support/bits.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

struct Layer {
  MultiHeadShape shape;
  MultiHeadTensors parameters;
  MultiHeadViews views;
  Tensor x, onto, doutput;
};

Layer layer_of(const MultiHeadShape& shape, const Dims& batch_and_tokens) {
  const Dims dims{batch_and_tokens[0], batch_and_tokens[1], shape.width};
  const auto made = [&](const char* name) { return normal(dims, name, DType::f32); };
  Layer layer{shape, {}, {}, made("x"), made("onto"), made("doutput")};
  const MultiHeadParameters<Dims> shapes = parameter_shapes(shape);
  for_each_parameter(
      [&](const char* name, ParameterKind, Tensor& tensor, const Dims& each, ConstTensorView& view) {
        if (each.rank() == 0) return;
        tensor = normal(each, name, DType::f32, 0.2);
        view = tensor;
      },
      layer.parameters, shapes, layer.views);
  return layer;
}

struct Found {
  MultiHeadResults forward;
  MultiHeadGradients gradients;
};

// A pass forward and backward, shared if there is a pass to share.
Found through(Context& context, const Layer& layer, const MultiHeadOptions& options, ops::SharedPass* pass) {
  Found found;
  ops::Residual residual;
  if (options.output_dropout.p == 0) residual = {layer.onto, layer.views.out_proj_bias};
  ops::multihead(context, layer.shape, layer.views, {}, {layer.x}, options, MultiHeadWants::training(), residual,
                 found.forward, pass);
  ops::multihead_backward(context, layer.shape, layer.views, {layer.x}, options, found.forward, {layer.doutput, {}, {}},
                          {.gates = options.attention.gates.present()}, {}, found.gradients, pass);
  if (pass == nullptr) return found;
  std::vector<TensorView> gradients;
  for_each_parameter(
      [&](const char*, ParameterKind, Tensor& tensor) {
        if (tensor.present()) gradients.push_back(tensor);
      },
      found.gradients.dparameters);
  pass->complete(context, gradients);
  return found;
}

void expect_bits_of_one_process(const Layer& layer, const MultiHeadOptions& options) {
  Context context(1);
  ops::SharedPass pass(ranks());
  const Found one = through(context, layer, options, nullptr), many = through(context, layer, options, &pass);
  EXPECT_TRUE(same_bits("output", many.forward.output, one.forward.output));
  EXPECT_TRUE(same_bits("heads", many.forward.heads, one.forward.heads));
  EXPECT_TRUE(same_bits("dquery", many.gradients.dquery, one.gradients.dquery));
  EXPECT_TRUE(same_bits("dgates", many.gradients.dgates, one.gradients.dgates));
  for_each_parameter([](const char* name, ParameterKind, const Tensor& a,
                        const Tensor& b) { EXPECT_TRUE(same_bits(std::string("gradient of ") + name, a, b)); },
                     many.gradients.dparameters, one.gradients.dparameters);
}

// More ranks than kv heads, heads and widths that ranks do not divide, every option that has an axis of heads.
TEST(SharedPass, HasTheBitsOfOneProcess) {
  const Tensor gates = normal({2, 6}, "gates", DType::f32), slopes = normal({6}, "slopes", DType::f32),
               bias = normal({6, 19, 19}, "bias", DType::f32), sink = normal({6}, "sink", DType::f32);
  MultiHeadOptions plain, all, rotary;
  all.attention = {.causal = true,
                   .bias = bias,
                   .alibi = slopes,
                   .sink_logit = sink,
                   .dropout = {.p = 0.2, .seed = 3},
                   .gates = gates};
  all.attention.align = Align::top_left;
  all.output_dropout = {.p = 0.1, .seed = 4};
  rotary.attention = {.causal = true, .dropout = {.p = 0.1, .seed = 5, .origin = {.sequence = 7}}};
  rotary.rotary = Rotary{};
  for (const std::int64_t kv_heads : {6, 2, 1}) {
    for (const bool norms : {false, true}) {
      SCOPED_TRACE(std::to_string(kv_heads) + " kv heads" + (norms ? " with norms" : ""));
      const MultiHeadShape shape{.width = 40, .heads = 6, .kv_heads = kv_heads, .head_dim = 16, .qk_norm = norms};
      for (const MultiHeadOptions& options : {plain, all, rotary}) {
        expect_bits_of_one_process(layer_of(shape, {2, 19}), options);
      }
    }
  }
}

// Few long heads sum dq in copies: those of one rank would in two, all of them do in one.
TEST(SharedPass, HasTheBitsOfLongHeads) {
  MultiHeadOptions causal;
  causal.attention = {.causal = true, .dropout = {.p = 0.1, .seed = 3}};
  expect_bits_of_one_process(layer_of({.width = 24, .heads = 6, .head_dim = 8}, {2, 1200}), causal);
}

// Products of a feed-forward network: GELU and a residual go with them.
TEST(SharedPass, HasTheBitsOfProducts) {
  Context context(1);
  ops::SharedPass pass(ranks());
  for (const Dims& sizes : {Dims{50, 37, 23}, Dims{9, 300, 5}, Dims{3, 1, 1}}) {
    SCOPED_TRACE(to_string(sizes));
    const Tensor x = normal({sizes[0], sizes[1]}, "x", DType::f32), w = normal({sizes[2], sizes[1]}, "w", DType::f32),
                 b = normal({sizes[2]}, "b", DType::f32), plus = normal({sizes[0], sizes[2]}, "plus", DType::f32);
    const auto made = [](const Tensor& like) { return Tensor::zeros(like.shape(), DType::f32); };
    const auto in = [&](ops::SharedPass* shared) {
      std::vector<Tensor> found;
      for (int n = 0; n < 3; ++n) found.push_back(made(plus));
      ops::linear_into(context, x, w, b, found[0], {.plus = plus, .shared = shared});
      ops::linear_into(context, x, w, {}, found[1], {.before_gelu = found[2], .shared = shared});
      for (const Tensor* like : {&x, &w, &b}) found.push_back(made(*like));
      ops::linear_backward_into(context, x, w, plus, {found[3], found[4], found[5]}, shared);
      const TensorView gradients[] = {found[4], found[5]};
      if (shared != nullptr) shared->complete(context, gradients);
      return found;
    };
    const std::vector<Tensor> one = in(nullptr), many = in(&pass);
    const char* names[] = {"y", "gelu", "before it", "dx", "dweight", "dbias"};
    for (std::size_t n = 0; n < one.size(); ++n) EXPECT_TRUE(same_bits(names[n], many[n], one[n]));
  }
}

std::string said(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(SharedPass, RefusesWhatItCannotShare) {
  Context context(1);
  ops::SharedPass pass(ranks());
  const Layer layer = layer_of({.width = 16, .heads = 2}, {1, 3});
  MultiHeadResults results;
  const auto with = [&](const MultiHeadInputs& inputs, const MultiHeadWants& wants) {
    return said([&] { ops::multihead(context, layer.shape, layer.views, {}, inputs, {}, wants, {}, results, &pass); });
  };
  const std::string where = " in a pass that ranks share";
  EXPECT_EQ(with({layer.x, layer.onto}, {}), "[multihead] expected self-attention, found a key of its own" + where);
  for (const AttentionWants& wants : {AttentionWants{.weights = true}, AttentionWants{.logits = LogitStage::scaled},
                                      AttentionWants{.statistics = StatisticsSet::light}}) {
    EXPECT_EQ(with({layer.x}, {.attention = wants}),
              "[multihead] expected no reports of heads (weights, logits, statistics)" + where);
  }
  EXPECT_EQ(with({layer.x}, MultiHeadWants::training()), "nothing");
  MultiHeadGradients gradients;
  MultiHeadOptions options;
  const Tensor bias = normal({3, 3}, "bias", DType::f32);
  options.attention.bias = bias;
  EXPECT_EQ(said([&] {
              ops::multihead_backward(context, layer.shape, layer.views, {layer.x}, options, results,
                                      {layer.doutput, {}, {}}, {.bias = true}, {}, gradients, &pass);
            }),
            "[multihead_backward] expected no gradient of bias or sink_logit" + where);
}

}  // namespace
}  // namespace polyhead::test
