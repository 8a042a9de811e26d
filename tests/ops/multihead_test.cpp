// The layer as one op against the layer as the papers write it, forward and backward; and by finite differences.
#include <gtest/gtest.h>

#include <functional>

#include "core/numbers.h"
#include "polyhead/layer.h"
#include "polyhead/linear.h"
#include "reference/multihead_in.h"
#include "support/bits.h"
#include "support/compare.h"
#include "support/numbers.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

enum class Inputs { self, key_alone, key_and_value };

struct LayerCase {
  std::string name;
  MultiHeadShape shape{.width = 24, .heads = 4};
  std::int64_t batch = 2, queries = 9, keys = 9;
  Inputs inputs = Inputs::self;
  DType dtype = DType::f32;
  bool gates = false, sink = false, bias = false;
  MultiHeadOptions options;
};
void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.name; }

// A case with its tensors.
struct Layer {
  LayerCase recipe;
  MultiHeadAttention layer;
  MultiHeadInputs inputs;
  MultiHeadOptions options;
  GradientWants wants;
  Tensor doutput;
  std::vector<Tensor> memory;

  explicit Layer(const LayerCase& c) : recipe(c), layer(c.shape, c.dtype, 5), options(c.options) {
    const MultiHeadShape full = c.shape.resolved();
    const std::int64_t keys = c.inputs == Inputs::self ? c.queries : c.keys;
    inputs.query = add({c.batch, c.queries, full.width}, c.dtype);
    if (c.inputs != Inputs::self) inputs.key = add({c.batch, keys, full.key_width}, c.dtype);
    if (c.inputs == Inputs::key_and_value) inputs.value = add({c.batch, keys, full.value_width}, c.dtype);
    for (auto& [name, tensor] : layer.state()) {
      if (name.ends_with("bias") || name.ends_with("norm.weight")) fill(tensor);
    }
    const DType numbers = c.dtype == DType::f64 ? DType::f64 : DType::f32;
    if (c.gates) options.attention.gates = add({c.batch, full.heads}, numbers);
    if (c.sink) options.attention.sink_logit = add({full.heads}, numbers);
    if (c.bias) options.attention.bias = add({full.heads, c.queries, keys}, c.dtype);
    wants = {.bias = c.bias, .sink_logit = c.sink, .gates = c.gates};
    doutput = Tensor::empty({c.batch, c.queries, full.width}, c.dtype);
    fill(doutput);
  }

  TensorView add(const Dims& shape, DType dtype) {
    memory.push_back(Tensor::empty(shape, dtype));
    fill(memory.back());
    return memory.back();
  }
  void fill(const TensorView& tensor) { fill_normal(tensor, random); }

  MultiHeadResults forward(Context& context) const {
    return layer.forward(context, inputs, options, MultiHeadWants::training());
  }
  MultiHeadGradients backward(Context& context, const MultiHeadResults& results) const {
    return layer.backward(context, inputs, options, results, {.output = doutput}, wants);
  }

  Random random{"layer"};
};

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list;
  const auto add = [&](const std::string& name, const std::function<void(LayerCase&)>& change) {
    LayerCase c;
    c.name = name;
    change(c);
    list.push_back(c);
  };
  add("plain", [](LayerCase&) {});
  add("no_bias", [](LayerCase& c) { c.shape.bias = false; });
  add("causal", [](LayerCase& c) { c.options.attention.causal = true; });
  add("one_head", [](LayerCase& c) { c.shape.heads = 1; });
  add("grouped", [](LayerCase& c) { c.shape.kv_heads = 2; });
  add("own_head_dim", [](LayerCase& c) { c.shape.head_dim = 7; });
  add("cross", [](LayerCase& c) {
    c.inputs = Inputs::key_alone;
    c.keys = 13;
  });
  add("cross_three", [](LayerCase& c) {
    c.inputs = Inputs::key_and_value;
    c.keys = 5;
  });
  add("own_widths", [](LayerCase& c) {
    c.inputs = Inputs::key_and_value;
    c.shape.key_width = 10;
    c.shape.value_width = 17;
    c.shape.kv_heads = 2;
  });
  add("memory_of_another_width", [](LayerCase& c) {
    c.inputs = Inputs::key_alone;
    c.shape.key_width = c.shape.value_width = 11;
  });
  add("gates_and_sink", [](LayerCase& c) { c.gates = c.sink = true; });
  add("bias", [](LayerCase& c) { c.bias = true; });
  add("dropouts", [](LayerCase& c) {
    c.options.attention.dropout = {.p = 0.3, .seed = 4};
    c.options.output_dropout = {.p = 0.2, .seed = 8};
  });
  add("rotary_half", [](LayerCase& c) { c.options.rotary = Rotary{}; });
  add("rotary_interleaved", [](LayerCase& c) {
    c.options.rotary = Rotary{.layout = RotaryLayout::interleaved, .dim = 4};
    c.shape.kv_heads = 1;
  });
  add("long", [](LayerCase& c) {
    c.queries = 150;
    c.options.attention.causal = true;
  });
  add("qk_norm", [](LayerCase& c) {
    c.shape.qk_norm = true;
    c.shape.head_dim = 20;  // of many, the largest error is no accident
    c.shape.kv_heads = 2;
    c.options.rotary = Rotary{};
    c.options.qk_norm_epsilon = 1e-3;
    c.options.attention.softcap = 3;
    c.options.attention.scale = 0.7;
  });
  add("qk_norm_cross", [](LayerCase& c) {
    c.shape.qk_norm = true;
    c.shape.head_dim = 20;
    c.inputs = Inputs::key_alone;
    c.keys = 5;
  });
  const std::size_t count = list.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const DType dtype : {DType::f64, DType::f16, DType::bf16}) {
      if (list[i].shape.qk_norm && dtype != DType::f64) continue;
      LayerCase c = list[i];
      c.dtype = dtype;
      c.name += "_" + std::string(name_of(dtype));
      list.push_back(c);
    }
  }
  return list;
}

class MultiHead : public ::testing::TestWithParam<LayerCase> {};

struct Forward {
  template <class Numbers>
  reference::LayerSteps operator()(const Layer& l, DType between) const {
    return reference::multihead_in<Numbers>(l.recipe.shape, l.layer.parameters(), l.inputs, l.options, between);
  }
};
struct Backward {
  template <class Numbers>
  MultiHeadGradients operator()(const Layer& l, DType between) const {
    return reference::multihead_backward_in<Numbers>(l.recipe.shape, l.layer.parameters(), l.inputs, l.options,
                                                     {.output = l.doutput}, l.wants, between);
  }
};

// What a plain implementation in the case's own type makes of it.
template <class Run>
auto plainly(const Layer& l, const Run& run) {
  switch (l.recipe.dtype) {
    case DType::f64: return run.template operator()<reference::Doubles>(l, DType::f64);
    case DType::f16: return run.template operator()<Rounded<float, float16>>(l, DType::f16);
    case DType::bf16: return run.template operator()<Rounded<float, bfloat16>>(l, DType::bf16);
    default: return run.template operator()<Rounded<float, float>>(l, DType::f32);
  }
}

TEST_P(MultiHead, IsTheLayerOfThePapers) {
  const Layer l(GetParam());
  const reference::LayerSteps exact = Forward{}.operator()<reference::Doubles>(l, DType::f64);
  const reference::LayerSteps plain = plainly(l, Forward{});
  Context context(2);
  const MultiHeadResults got = l.forward(context);
  if (l.recipe.dtype == DType::f64) {  // nothing here is more exact than f64: equal but for the order of sums
    for (std::int64_t n = 0; n < count_of(got.output.shape()); ++n) {
      ASSERT_NEAR(got.output.as<double>()[n], exact.output.as<double>()[n], 1e-13);
    }
  } else {
    EXPECT_TRUE(near_enough("heads", got.heads, exact.heads, plain.heads));
    EXPECT_TRUE(near_enough("output", got.output, exact.output, plain.output));
  }
  const MultiHeadResults alone = l.layer.forward(context, l.inputs, l.options);
  EXPECT_TRUE(same_bits("output", got.output, alone.output)) << "what is kept beside must not change it";
  EXPECT_FALSE(alone.heads.present() || alone.lse.present() || alone.projections.q.present());
}

TEST_P(MultiHead, GradientsAreThoseOfThePapers) {
  const Layer l(GetParam());
  const MultiHeadGradients exact = Backward{}.operator()<reference::Doubles>(l, DType::f64);
  const MultiHeadGradients plain = plainly(l, Backward{});
  Context context(2);
  const MultiHeadResults forward = l.forward(context);
  const MultiHeadGradients got = l.backward(context, forward);
  const auto judge = [&](const char* name, const Tensor& g, const Tensor& e, const Tensor& p) {
    ASSERT_EQ(g.present(), e.present()) << name;
    if (!g.present()) return;
    if (l.recipe.dtype == DType::f64) {
      for (std::int64_t n = 0; n < count_of(g.shape()); ++n) {
        ASSERT_NEAR(g.as<double>()[n], e.as<double>()[n], 1e-12) << name << " at " << n;
      }
      return;
    }
    // The plain one keeps gradients of numbers in the type between; the contract has them in f32.
    Tensor same = Tensor::empty(g.shape(), g.dtype());
    reference::Array<double>(p.view()).store_to(same);
    EXPECT_TRUE(near_enough(name, g, e, same));
  };
  judge("dquery", got.dquery, exact.dquery, plain.dquery);
  judge("dkey", got.dkey, exact.dkey, plain.dkey);
  judge("dvalue", got.dvalue, exact.dvalue, plain.dvalue);
  const auto judge_one = [&](const char* name, ParameterKind, const Tensor& one, const Tensor& true_one,
                             const Tensor& plain_one) { judge(name, one, true_one, plain_one); };
  for_each_parameter(judge_one, got.dparameters, exact.dparameters, plain.dparameters);
  judge("dbias", got.dbias, exact.dbias, plain.dbias);
  judge("dsink_logit", got.dsink_logit, exact.dsink_logit, plain.dsink_logit);
  judge("dgates", got.dgates, exact.dgates, plain.dgates);
}

INSTANTIATE_TEST_SUITE_P(Cases, MultiHead, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

// sum(output * doutput), which the gradients are of.
double value_of(Context& context, const Layer& l) {
  const MultiHeadResults results = l.layer.forward(context, l.inputs, l.options);
  double sum = 0;
  for (std::int64_t n = 0; n < count_of(results.output.shape()); ++n) {
    sum += results.output.as<double>()[n] * l.doutput.as<double>()[n];
  }
  return sum;
}

void expect_slopes(Context& context, const Layer& l, const std::string& name, const TensorView& x, const Tensor& dx) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(x.shape(), dx.shape()) << name;
  const std::int64_t count = x.count(), stride = std::max<std::int64_t>(1, count / 23);  // some of them, all over
  for (std::int64_t n = 0; n < count; n += stride) {
    double& value = x.as<double>()[n];
    const double at = value;
    value = at + kStep;
    const double above = value_of(context, l);
    value = at - kStep;
    const double below = value_of(context, l);
    value = at;
    EXPECT_NEAR(dx.as<double>()[n], (above - below) / (2 * kStep), 2e-7) << name << " at " << n;
  }
}

TEST(MultiHeadGradient, IsTheFiniteDifferenceThroughTheWholeLayer) {
  Context context(1);
  for (const LayerCase& c : cases()) {
    if (c.dtype != DType::f64 || c.queries > 20) continue;
    SCOPED_TRACE(c.name);
    Layer l(c);
    const MultiHeadGradients g = l.backward(context, l.forward(context));
    std::vector<const Tensor*> d;
    for_each_parameter([&](const char*, ParameterKind, const Tensor& one) { d.push_back(&one); }, g.dparameters);
    std::size_t next = 0;
    for (const auto& [name, tensor] : l.layer.state()) {
      while (!d[next]->present()) ++next;
      expect_slopes(context, l, name, tensor, *d[next++]);
    }
    const auto writable = [](const ConstTensorView& view) {
      return TensorView(const_cast<void*>(view.data()), view.dtype(), view.shape(), view.strides());
    };
    expect_slopes(context, l, "query", writable(l.inputs.query), g.dquery);
    if (g.dkey.present()) expect_slopes(context, l, "key", writable(l.inputs.key), g.dkey);
    if (g.dvalue.present()) expect_slopes(context, l, "value", writable(l.inputs.value), g.dvalue);
    if (g.dgates.present()) expect_slopes(context, l, "gates", writable(l.options.attention.gates), g.dgates);
    if (g.dsink_logit.present()) {
      expect_slopes(context, l, "sink", writable(l.options.attention.sink_logit), g.dsink_logit);
    }
    if (g.dbias.present()) expect_slopes(context, l, "bias", writable(l.options.attention.bias), g.dbias);
  }
}

TEST(MultiHeadThreads, ChangeNoBit) {
  LayerCase c;
  c.shape = {.width = 128, .heads = 4};
  c.batch = 3;
  c.queries = 200;
  c.options.attention.causal = true;
  const Layer l(c);
  Context one(1);
  const MultiHeadResults forward = l.forward(one);
  const MultiHeadGradients backward = l.backward(one, forward);
  for (int threads = 2; threads <= 8; threads += 3) {
    Context context(threads);
    const MultiHeadResults again = l.forward(context);
    EXPECT_TRUE(same_bits("output", forward.output, again.output));
    const MultiHeadGradients gradients = l.backward(context, again);
    EXPECT_TRUE(same_bits("dquery", backward.dquery, gradients.dquery));
    EXPECT_TRUE(same_bits("in_proj_weight", backward.dparameters.in_proj_weight, gradients.dparameters.in_proj_weight));
    EXPECT_TRUE(same_bits("out_proj_bias", backward.dparameters.out_proj_bias, gradients.dparameters.out_proj_bias));
  }
}

// x W^T + b, in f64.
Tensor exact_product(const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias) {
  const reference::Array<double> xs(x), ws(weight), bs(bias);
  Tensor y = Tensor::empty({x.shape(0), x.shape(1), weight.shape(0)}, DType::f64);
  const auto columns = static_cast<std::size_t>(weight.shape(0)), inner = static_cast<std::size_t>(weight.shape(1));
  std::size_t n = 0;
  fill_with(y, [&] {
    const std::size_t row = n / columns, column = n % columns;
    ++n;
    double sum = bs.present() ? bs.values()[column] : 0;
    for (std::size_t k = 0; k < inner; ++k) sum += xs.values()[row * inner + k] * ws.values()[column * inner + k];
    return sum;
  });
  return y;
}

// The product with W_O apart from bias and residual: of the heads that the layer hands out, `linear` makes the layer's
// own output; rows of W_O make columns of it; and columns of W_O, whole heads, make parts without a bias that add up.
TEST(MultiHeadHeads, TimesTheOutputWeightsAreTheOutput) {
  Context context(2);
  for (const LayerCase& c : cases()) {
    if (c.options.output_dropout.p > 0) continue;
    SCOPED_TRACE(c.name);
    const Layer l(c);
    const MultiHeadResults results = l.forward(context);
    const MultiHeadViews p = l.layer.parameters();
    EXPECT_TRUE(
        same_bits("output", linear(context, results.heads, p.out_proj_weight, p.out_proj_bias), results.output));
    const std::int64_t width = p.out_proj_weight.shape(0), inner = p.out_proj_weight.shape(1);
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, width / 3}, {width / 3, width}}) {
      const ConstTensorView bias = p.out_proj_bias.present() ? p.out_proj_bias.slice(0, begin, end) : ConstTensorView{};
      const Tensor part = linear(context, results.heads, p.out_proj_weight.slice(0, begin, end), bias);
      EXPECT_EQ(reference::Array<double>(part.view()).values(),
                reference::Array<double>(results.output.view().slice(2, begin, end)).values());
    }
    Tensor sum = Tensor::zeros(results.output.shape(), results.output.dtype());
    std::vector<double> total(static_cast<std::size_t>(sum.view().count()), 0);
    const std::int64_t cut = inner / c.shape.heads * (c.shape.heads / 2);  // some heads here, the others there
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, {cut, inner}}) {
      Tensor part = Tensor::empty(sum.shape(), c.dtype == DType::f64 ? DType::f64 : DType::f32);
      linear_into(context, results.heads.view().slice(2, begin, end), p.out_proj_weight.slice(1, begin, end), {}, part);
      const reference::Array<double> numbers(part.view());
      for (std::size_t n = 0; n < total.size(); ++n) total[n] += numbers.values()[n];
    }
    const reference::Array<double> bias(p.out_proj_bias);
    std::size_t n = 0;
    fill_with(sum, [&] {
      const double b = bias.present() ? bias.values()[n % static_cast<std::size_t>(width)] : 0;
      return total[n++] + b;
    });
    const Tensor exact = exact_product(results.heads, p.out_proj_weight, p.out_proj_bias);
    EXPECT_TRUE(near_enough("sum of parts", sum, exact, results.output));
  }
}

// Lengths, keep, positions and strides: the layer hands on what it is given.
// Matrices of 16 bits beside f32, of one type or of two: the bits of the same numbers in f32, forward and back.
TEST(MultiHeadWeights, Of16BitsAreWidened) {
  Context context(1);
  const MultiHeadShape shapes[] = {{.width = 24, .heads = 4, .kv_heads = 2},
                                   {.width = 24, .heads = 4, .key_width = 10, .value_width = 10}};
  for (const MultiHeadShape& shape : shapes) {
    const Layer l({.name = "halves",
                   .shape = shape,
                   .inputs = shape.key_width > 0 ? Inputs::key_alone : Inputs::self,
                   .options = {}});
    MultiHeadViews halves = l.layer.parameters(), wides = halves;
    std::vector<Tensor> memory;
    bool odd = false;
    for (auto view : {&MultiHeadViews::in_proj_weight, &MultiHeadViews::q_proj_weight, &MultiHeadViews::k_proj_weight,
                      &MultiHeadViews::v_proj_weight, &MultiHeadViews::out_proj_weight}) {
      if (!(halves.*view).present()) continue;
      Tensor half = Tensor::empty((halves.*view).shape(), (odd = !odd) ? DType::bf16 : DType::f16);
      copy(context, halves.*view, half);
      memory.push_back(widened(clone(context, half)));
      wides.*view = memory.back();
      memory.push_back(std::move(half));
      halves.*view = memory.back();
    }
    const auto run = [&](const MultiHeadViews& parameters) {
      MultiHeadResults forward;
      multihead_into(context, shape, parameters, l.inputs, {}, MultiHeadWants::training(), forward);
      MultiHeadGradients backward;
      multihead_backward_into(context, shape, parameters, l.inputs, {}, forward, {.output = l.doutput}, {}, backward);
      return std::pair{std::move(forward), std::move(backward)};
    };
    const auto [forward, backward] = run(halves);
    const auto [expected, gradients] = run(wides);
    EXPECT_TRUE(same_bits("output", forward.output, expected.output));
    EXPECT_TRUE(same_bits("dquery", backward.dquery, gradients.dquery));
    const MultiHeadTensors &d = backward.dparameters, &e = gradients.dparameters;
    EXPECT_EQ(d.out_proj_weight.dtype(), DType::f32);
    EXPECT_TRUE(same_bits("in", d.in_proj_weight, e.in_proj_weight));
    EXPECT_TRUE(same_bits("k", d.k_proj_weight, e.k_proj_weight));
    EXPECT_TRUE(same_bits("out", d.out_proj_weight, e.out_proj_weight));
  }
}

TEST(MultiHeadOptions, ReachAttention) {
  LayerCase c;
  c.shape.kv_heads = 2;
  Layer l(c);
  Tensor lengths = Tensor::empty({2}, DType::i32), places = Tensor::empty({2, 9}, DType::i32),
         keep = Tensor::empty({2, 1, 9, 9}, DType::boolean);
  lengths.as<std::int32_t>()[0] = 9;
  lengths.as<std::int32_t>()[1] = 6;
  fill_with(places.view(), [&] { return static_cast<double>(l.random.below(50)); });
  fill_with(keep.view(), [&] { return l.random.uniform() < 0.8 ? 1.0 : 0.0; });
  l.options.attention.key_lengths = l.options.attention.query_lengths = lengths;
  l.options.attention.keep = keep;
  l.options.rotary = Rotary{};
  l.options.query_positions = places;  // of keys too, since they are the queries
  Tensor wide = Tensor::empty({2, 9, 30}, DType::f32);
  l.fill(wide);
  l.inputs.query = wide.view().slice(2, 3, 27);
  Context context(2);
  const MultiHeadResults got = l.forward(context);
  MultiHeadOptions both = l.options;
  both.key_positions = places;
  const auto exact =
      reference::multihead_in<reference::Doubles>(c.shape, l.layer.parameters(), l.inputs, both, DType::f64);
  const auto plain =
      reference::multihead_in<Rounded<float, float>>(c.shape, l.layer.parameters(), l.inputs, both, DType::f32);
  EXPECT_TRUE(near_enough("output", got.output, exact.output, plain.output));
  l.options.rotary.reset();
  EXPECT_THROW(l.forward(context), Error);  // positions without rotary
}

// Gradients that are handed in again, of another call and with other memory in them, come out the same.
TEST(MultiHeadMemory, OfGradientsIsUsedAgain) {
  const std::vector<LayerCase> all = cases();
  Context context(1);
  MultiHeadResults results;
  MultiHeadGradients gradients;
  for (const LayerCase& c : all) {
    SCOPED_TRACE(c.name);
    const Layer l(c);
    multihead_into(context, c.shape, l.layer.parameters(), l.inputs, l.options, MultiHeadWants::training(), results);
    multihead_backward_into(context, c.shape, l.layer.parameters(), l.inputs, l.options, results, {.output = l.doutput},
                            l.wants, gradients);
    const MultiHeadResults forward = l.forward(context);
    const MultiHeadGradients expected = l.backward(context, forward);
    EXPECT_TRUE(same_bits("output", results.output, forward.output));
    EXPECT_TRUE(same_bits("dquery", gradients.dquery, expected.dquery));
    EXPECT_TRUE(same_bits("dkey", gradients.dkey, expected.dkey));
    EXPECT_TRUE(same_bits("dvalue", gradients.dvalue, expected.dvalue));
    EXPECT_TRUE(same_bits("out", gradients.dparameters.out_proj_weight, expected.dparameters.out_proj_weight));
    EXPECT_TRUE(same_bits("in", gradients.dparameters.in_proj_weight, expected.dparameters.in_proj_weight));
    EXPECT_TRUE(same_bits("q", gradients.dparameters.q_proj_weight, expected.dparameters.q_proj_weight));
    EXPECT_TRUE(same_bits("dgates", gradients.dgates, expected.dgates));
    EXPECT_TRUE(same_bits("dbias", gradients.dbias, expected.dbias));
  }
  // But not if it is one of the inputs.
  const Layer l(all[0]);
  const MultiHeadResults forward = l.forward(context);
  gradients.dquery = Tensor::zeros(l.inputs.query.shape(), DType::f32);
  const MultiHeadInputs same{gradients.dquery};
  EXPECT_THROW(multihead_backward_into(context, all[0].shape, l.layer.parameters(), same, l.options, forward,
                                       {.output = l.doutput}, l.wants, gradients),
               Error);
}

// Memory of an earlier call serves again, and leaves nothing of that call behind.
TEST(MultiHeadMemory, IsUsedAgain) {
  LayerCase c;
  const Layer l(c);
  Context context(1);
  MultiHeadResults results = l.forward(context);
  const void* const at = results.output.view().data();
  multihead_into(context, c.shape, l.layer.parameters(), l.inputs, l.options, {}, results);
  EXPECT_EQ(results.output.view().data(), at);
  EXPECT_FALSE(results.heads.present() || results.lse.present() || results.projections.q.present());
}

}  // namespace
}  // namespace polyhead::test
