// The tape: gradients that meet are added, each op's backward step is the slope of its forward one.
#include "autograd/tape.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "autograd/functions.h"
#include "support/bits.h"
#include "support/random.h"

namespace polyhead::autograd {
namespace {

Parameter normal(const std::string& name, const Dims& shape, DType dtype = DType::f64) {
  Tensor tensor = Tensor::empty(shape, dtype);
  test::Random random(name);
  test::fill_normal(tensor, random, 1);
  return {name, std::move(tensor)};
}

Tensor numbers(const Dims& shape, int below) {
  Tensor tensor = Tensor::empty(shape, DType::i32);
  test::Random random("numbers");
  for (std::int64_t n = 0; n < count_of(shape); ++n) {
    tensor.as<std::int32_t>()[n] = static_cast<std::int32_t>(random.below(below));
  }
  return tensor;
}

// `build` makes logits [3,4,5] from the parameters; their gradients are the slopes of the loss.
void expect_slopes(std::vector<Parameter*> parameters, const std::function<Variable(Tape&)>& build) {
  Context context(2);
  Tape tape(context);
  const Tensor targets = numbers({3, 4}, 5);
  const auto loss = [&] {
    tape.clear();
    return cross_entropy(tape, build(tape), targets).read().loss;
  };
  for (int pass = 0; pass < 2; ++pass) {  // memory that is used again brings nothing along
    loss();
    tape.backward();
  }
  for (Parameter* parameter : parameters) {
    const std::int64_t count = count_of(parameter->value.shape());
    for (std::int64_t n = 0; n < count; n += std::max<std::int64_t>(1, count / 20)) {
      constexpr double kStep = 1e-6;
      double& at = parameter->value.as<double>()[n];
      const double before = at;
      at = before + kStep;
      const double above = loss();
      at = before - kStep;
      const double below = loss();
      at = before;
      EXPECT_NEAR(tape.gradients().of(*parameter).as<double>()[n], (above - below) / (2 * kStep), 2e-8)
          << parameter->name << " at " << n;
    }
  }
}

TEST(Tape, GradientsOfEveryFunction) {
  Parameter x = normal("x", {3, 4, 6}), up = normal("up", {10, 6}), up_bias = normal("up bias", {10}),
            down = normal("down", {5, 5}), down_bias = normal("down bias", {5}), gamma = normal("gamma", {6}),
            beta = normal("beta", {6}), row = normal("row", {5});
  for (const auto f : {ops::Elementwise::gelu, ops::Elementwise::erf_gelu}) {
    expect_slopes({&x, &up, &up_bias, &down, &down_bias, &gamma, &beta, &row}, [&](Tape& tape) {
      const Variable in = drop(tape, tape.parameter(x), {0.25, 7});
      const Variable unit = normalise(tape, in, tape.parameter(gamma), tape.parameter(beta), 1e-3);
      const Variable wide = linear_gelu(tape, unit, tape.parameter(up), tape.parameter(up_bias), f);
      const Variable narrow =
          linear(tape, gate(tape, wide, ops::Gate::silu), tape.parameter(down), tape.parameter(down_bias));
      return softcap(tape, scale(tape, add_to_rows(tape, narrow, tape.parameter(row)), 1.5), 2);
    });
  }
}

// Onto what is there: the same as the sum, and a gradient for both.
TEST(Tape, ProductsAreAddedToAStream) {
  Parameter x = normal("x", {3, 4, 6}), stream = normal("stream", {3, 4, 5}), weight = normal("weight", {5, 6}),
            bias = normal("bias", {5});
  expect_slopes({&x, &stream, &weight, &bias}, [&](Tape& tape) {
    const Variable once =
        linear_onto(tape, tape.parameter(stream), tape.parameter(x), tape.parameter(weight), tape.parameter(bias));
    return linear_onto(tape, once, tape.parameter(x), tape.parameter(weight),
                       std::nullopt);  // it has a gradient by then
  });
}

// A stream of f32 beside products of 16 bits: dy is rounded for them, and the bias gets sums of what was not.
TEST(Tape, ProductsOfSixteenBitsAreAddedToAStream) {
  Context context(1);
  const Parameter stream = normal("stream", {40, 5}, DType::f32), x = normal("x", {40, 6}, DType::f32),
                  weight = normal("weight", {5, 6}, DType::f32), bias = normal("bias", {5}, DType::f32);
  const Tensor targets = numbers({40}, 5);
  const auto gradients = [&](bool fused) {
    Tape tape(context);
    const Variable onto = tape.parameter(stream), in = as(tape, tape.parameter(x), DType::bf16),
                   w = tape.parameter(weight), b = tape.parameter(bias);
    const Variable y = fused ? linear_onto(tape, onto, in, w, b) : add(tape, onto, linear(tape, in, w, b, DType::f32));
    const double before = cross_entropy(tape, y, targets).read().loss;
    EXPECT_GT(before, 0);
    tape.backward();
    std::vector<double> found{before};
    for (const Parameter* each : {&stream, &x, &weight, &bias}) {
      const Tensor& gradient = tape.gradients().of(*each);
      for (std::int64_t n = 0; n < count_of(gradient.shape()); ++n) {
        found.push_back(static_cast<double>(gradient.as<float>()[n]));
      }
    }
    return found;
  };
  const std::vector<double> fused = gradients(true), apart = gradients(false);
  ASSERT_EQ(fused.size(), apart.size());
  for (std::size_t n = 0; n < fused.size(); ++n) EXPECT_NEAR(fused[n], apart[n], 2e-3) << n;
}

// A parameter that a norm or an activation has sent a gradient to already gets the second one added.
TEST(Tape, ParametersMayServeTwice) {
  Parameter x = normal("x", {3, 4, 6}), gamma = normal("gamma", {6}), beta = normal("beta", {6}),
            weight = normal("weight", {6, 6}), bias = normal("bias", {6});
  expect_slopes({&x, &gamma, &beta, &weight, &bias}, [&](Tape& tape) {
    Variable y = tape.parameter(x);
    for (int times = 0; times < 2; ++times) {
      y = normalise(tape, y, tape.parameter(gamma), tape.parameter(beta), 1e-3);
      y = linear_gelu(tape, y, tape.parameter(weight), tape.parameter(bias), ops::Elementwise::gelu);
    }
    return y;
  });
}

TEST(Tape, ALossMayBeReadAfterTheWayBack) {
  Context context(1);
  Parameter x = normal("x", {2, 3, 5});
  const Tensor targets = numbers({2, 3}, 5);
  Tape tape(context);
  const Loss loss = cross_entropy(tape, tape.parameter(x), targets);
  const double before = loss.read().loss;
  tape.backward();
  EXPECT_EQ(loss.read().loss, before);
  EXPECT_EQ(loss.read().count, 6);
}

// One tensor that serves four ways: twice in a sum, under a norm, and as weights.
TEST(Tape, GradientsThatMeetAreAdded) {
  Parameter x = normal("x", {3, 4, 5}), gamma = normal("gamma", {5}), square = normal("square", {5, 5});
  expect_slopes({&x, &gamma, &square}, [&](Tape& tape) {
    const Variable a = tape.parameter(x), w = tape.parameter(square);
    const Variable twice = add(tape, a, a);
    const Variable unit = normalise(tape, twice, tape.parameter(gamma), std::nullopt, 1e-3);
    const Variable b = linear(tape, linear(tape, unit, w), w);
    const Variable later = softcap(tape, twice, 1);  // used again after b was made
    return add(tape, add(tape, twice, b), later);
  });
}

TEST(Tape, EmbeddingTiedToTheOutput) {
  Parameter table = normal("table", {5, 6}), positions = normal("positions", {7, 6});
  const Tensor tokens = numbers({3, 4}, 5);
  expect_slopes({&table, &positions}, [&](Tape& tape) {
    const Variable x = embed(tape, tape.parameter(table), tokens, tape.parameter(positions));
    return linear(tape, x, tape.parameter(table));
  });
}

TEST(Tape, TheLayer) {
  Parameter x = normal("x", {3, 4, 5}), in = normal("in", {16, 5}), in_bias = normal("in bias", {16}),
            out = normal("out", {5, 8}), out_bias = normal("out bias", {5});
  MultiHeadState state;
  expect_slopes({&x, &in, &in_bias, &out, &out_bias}, [&](Tape& tape) {
    const MultiHeadShape shape{.width = 5, .heads = 4, .kv_heads = 2, .head_dim = 2};
    const MultiHeadParameters<Parameter*> parameters{
        .in_proj_weight = &in, .in_proj_bias = &in_bias, .out_proj_weight = &out, .out_proj_bias = &out_bias};
    const MultiHeadOptions options{.attention = {.causal = true, .dropout = {0.2, 3}}, .output_dropout = {0.2, 4}};
    const Variable a = tape.parameter(x);
    return add(tape, a, multihead(tape, shape, parameters, a, options, {}, false, state));
  });
}

TEST(Tape, WhatNothingArrivesAtGetsZero) {
  Context context(1);
  Tape tape(context);
  Parameter x = normal("x", {1, 1, 5}), idle = normal("idle", {3});
  tape.gradients().of(idle).as<double>()[1] = 9;
  const Tensor targets = numbers({1, 1}, 5);
  tape.parameter(idle);
  cross_entropy(tape, tape.parameter(x), targets);
  tape.backward();
  EXPECT_EQ(tape.gradients().of(idle).as<double>()[1], 0);
  EXPECT_NE(tape.gradients().of(x).as<double>()[1], 0);
}

// Of a norm whose input needs no gradient the parameters still get theirs.
TEST(Tape, TheNormOfAConstant) {
  Parameter gamma = normal("gamma", {5}), beta = normal("beta", {5});
  const Parameter x = normal("x", {3, 4, 5});
  expect_slopes({&gamma, &beta}, [&](Tape& tape) {
    return normalise(tape, tape.constant(x.value), tape.parameter(gamma), tape.parameter(beta), 1e-3);
  });
}

// Of x in 16 bits, weights and bias of f32 are rounded to x's type.
TEST(Tape, WeightsFollowATypeOf16Bits) {
  Context context(1);
  const auto as = [&](const Parameter& from, DType dtype) {
    Tensor to = Tensor::empty(from.value.shape(), dtype);
    copy(context, from.value, to);
    return to;
  };
  const Parameter x = normal("x", {3, 4, 6}, DType::f32), weight = normal("weight", {5, 6}, DType::f32),
                  bias = normal("bias", {5}, DType::f32);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor in = as(x, dtype), expected = linear(context, in, as(weight, dtype), as(bias, dtype));
    for (const bool recording : {false, true}) {
      Tape tape(context, recording);
      const Variable y = linear(tape, tape.constant(in), tape.parameter(weight), tape.parameter(bias));
      EXPECT_TRUE(test::same_bits("y", clone(context, tape.value(y)), expected)) << recording;
    }
  }
}

// What was taken after a mark is handed out again, but for what is kept; what was taken before it is not.
TEST(Tape, HandsMemoryOutAgain) {
  Context context(1);
  Tape tape(context, false);
  const TensorView first = tape.take({3, 4}, DType::f32);
  const Pool::Mark mark = tape.mark();
  std::set<const void*> since;
  Variable kept;
  for (int n = 0; n < 3; ++n) {
    const TensorView taken = tape.take({4, 3}, DType::f32);
    since.insert(taken.data());
    if (n == 1) kept = tape.result(taken);
    since.insert(tape.take({5}, DType::f32).data());
  }
  tape.recycle(mark, kept);
  for (const Dims& shape : {Dims{12}, Dims{2, 6}, Dims{5}, Dims{5}, Dims{5}}) {
    const void* again = tape.take(shape, DType::f32).data();
    EXPECT_TRUE(since.contains(again));
    EXPECT_NE(again, tape.value(kept).data());
    EXPECT_NE(again, first.data());
    since.erase(again);
  }
  EXPECT_EQ(since, (std::set<const void*>{tape.value(kept).data()}));
}

// What was added to a gradient leaves it where it is, and what comes next goes elsewhere.
TEST(Tape, AGradientThatIsAddedToKeepsItsMemory) {
  Context context(1);
  Tape tape(context);
  const auto made = [&] { return tape.result(tape.take({2, 3}, DType::f32)); };
  const auto send = [&](Variable to, float value) {
    tape.send(to, [=](const TensorView& into) { std::fill_n(into.as<float>(), into.count(), value); });
  };
  const Variable x = made(), other = made(), first = made(), second = made();
  std::vector<float> found;
  std::vector<const void*> places;
  for (const Variable each : {x, other}) {
    tape.on_backward(each, [&](const TensorView& dy) {
      found.push_back(dy.as<float>()[4]);
      places.push_back(dy.data());
    });
  }
  tape.on_backward(first, [&](const TensorView&) {
    send(x, 1);
    send(other, 5);
  });
  const void* place = nullptr;  // of the gradient of x, to which the other is added
  tape.on_backward(second, [&](const TensorView&) {
    tape.send(x, [&](const TensorView& into) {
      place = into.data();
      std::fill_n(into.as<float>(), into.count(), 2.0F);
    });
  });
  send(first, 0);
  send(second, 0);
  tape.backward();
  EXPECT_EQ(found, (std::vector<float>{5, 3}));
  EXPECT_EQ(places.at(1), place);
  EXPECT_NE(places.at(0), place);
}

// A backward pass through a chain uses two pieces of memory in turn; a gradient that another variable shares stays.
TEST(Tape, GradientsTakeTheMemoryOfThoseThatAreDone) {
  Context context(1);
  Tape tape(context);
  const auto made = [&] { return tape.result(tape.take({2, 3}, DType::f32)); };
  const auto fill = [](const TensorView& into, float value) { std::fill_n(into.as<float>(), into.count(), value); };
  std::vector<const void*> places;
  Variable x = made();
  for (float n = 1; n < 8; ++n) {
    const Variable y = made();
    tape.on_backward(y, [&, x, n](const TensorView& dy) {
      EXPECT_EQ(dy.as<float>()[5], n);
      places.push_back(dy.data());
      tape.send(x, [&](const TensorView& into) { fill(into, n - 1); });
    });
    x = y;
  }
  const Variable shares = made(), last = made();
  tape.on_backward(shares, [&](const TensorView& dy) { EXPECT_EQ(dy.as<float>()[0], 7); });
  const Variable passes = made();
  tape.on_backward(passes, [&](const TensorView& dy) {
    tape.send_shared(shares, dy);
    tape.send_shared(x, dy);
  });
  tape.on_backward(last, [&](const TensorView&) { tape.send(passes, [&](const TensorView& dy) { fill(dy, 7); }); });
  tape.send(last, [&](const TensorView& into) { fill(into, 9); });
  tape.backward();
  ASSERT_EQ(places.size(), 7u);
  EXPECT_EQ(std::set<const void*>(places.begin(), places.end()).size(), 2u);
}

// Variables, steps back and memory; a parameter is a variable anew.
TEST(Tape, ClearForgetsAllButItsMemory) {
  Context context(1);
  Tape tape(context);
  const Parameter w = normal("w", {2, 3}, DType::f32);
  int called = 0;
  std::set<const void*> memory;
  for (int pass = 0; pass < 3; ++pass) {
    tape.clear();
    EXPECT_EQ(tape.constant(w.value).index, 0u);
    EXPECT_EQ(tape.parameter(w).index, 1u);
    EXPECT_EQ(tape.parameter(w).index, 1u) << "the same every time";
    const Variable y = tape.result(tape.take({2, 3}, DType::f32));
    EXPECT_EQ(y.index, 2u);
    memory.insert(tape.value(y).data());
    tape.on_backward(y, [&](const TensorView&) { ++called; });
    tape.send(y, [](const TensorView& into) { std::fill_n(into.as<float>(), 6, 1.0F); });
    tape.backward();
    EXPECT_EQ(called, pass + 1) << "each step once";
  }
  EXPECT_EQ(memory.size(), 1u);
}

// Copied once where the pass is recorded: nobody writes there. Else the memory may be handed out again.
TEST(Tape, ValuesInAnotherTypeAreCopied) {
  Context context(1);
  const Parameter w = normal("w", {2, 3}, DType::f32);
  for (const bool recording : {false, true}) {
    Tape tape(context, recording);
    const Variable x = tape.constant(w.value);
    EXPECT_EQ(tape.value_as(x, DType::f32).data(), w.value.view().data());
    const ConstTensorView one = tape.value_as(x, DType::bf16), two = tape.value_as(x, DType::bf16);
    EXPECT_EQ(one.dtype(), DType::bf16);
    EXPECT_EQ(one.data() == two.data(), recording);
    EXPECT_EQ(static_cast<float>(one.as<bfloat16>()[5]), static_cast<float>(bfloat16(w.value.as<float>()[5])));
    EXPECT_EQ(tape.value_as(x, DType::f16).dtype(), DType::f16) << "not the copy in another type";
    EXPECT_EQ(tape.as(w.value, DType::f32).data(), w.value.view().data());
    EXPECT_NE(tape.as(w.value, DType::f16).data(), tape.as(w.value, DType::f16).data());
    EXPECT_FALSE(tape.as({}, DType::f16).present());
    EXPECT_EQ(tape.here(w.value).data(), w.value.view().data());
    EXPECT_FALSE(tape.here({}).present());
    EXPECT_EQ(tape.inner_type(DType::f32), DType::f32) << "on the host";
  }
}

TEST(Tape, ManyParametersAreCopiedAtOnce) {
  Context context(1);
  Tape tape(context);
  const Parameter a = normal("a", {2, 3}, DType::f32), b = normal("b", {5}, DType::f32),
                  wide = normal("wide", {5}, DType::bf16);
  const ConstTensorView before = tape.value_as(tape.parameter(b), DType::bf16);
  const Parameter* const all[] = {&a, &b, &wide};
  tape.copy_parameters(all, DType::bf16);
  const ConstTensorView copied = tape.value_as(tape.parameter(a), DType::bf16);
  EXPECT_EQ(copied.data(), tape.value_as(tape.parameter(a), DType::bf16).data());
  for (int n = 0; n < 6; ++n) {
    EXPECT_EQ(static_cast<float>(copied.as<bfloat16>()[n]), static_cast<float>(bfloat16(a.value.as<float>()[n])));
  }
  EXPECT_EQ(tape.value_as(tape.parameter(b), DType::bf16).data(), before.data()) << "it had one";
  EXPECT_EQ(tape.value_as(tape.parameter(wide), DType::bf16).data(), wide.value.view().data());
}

TEST(Tape, WithoutRecordingThereIsNoWayBack) {
  Context context(1);
  Tape tape(context, false);
  Parameter x = normal("x", {2, 3, 5});
  const Tensor targets = numbers({2, 3}, 5);
  const Variable y = softcap(tape, tape.parameter(x), 1);
  EXPECT_GT(cross_entropy(tape, y, targets).read().loss, 0);
  EXPECT_FALSE(tape.gradient(y).present());
}

// Gradients of gates are the same whether parameters learn or not, and those get none.
TEST(Tape, FrozenParametersGetNoGradient) {
  constexpr std::int64_t kWidth = 6, kHeads = 3;
  Parameter in = normal("in", {3 * kWidth, kWidth}), out = normal("out", {kWidth, kWidth}),
            last = normal("last", {5, kWidth});
  const Parameter x = normal("x", {3, 4, kWidth});
  MultiHeadParameters<Parameter*> parameters;
  parameters.in_proj_weight = &in;
  parameters.out_proj_weight = &out;
  const MultiHeadShape shape{
      .width = kWidth, .heads = kHeads, .kv_heads = kHeads, .head_dim = kWidth / kHeads, .bias = false};
  Tensor gates = Tensor::empty({3, kHeads}, DType::f64);
  std::fill_n(gates.as<double>(), 3 * kHeads, 0.7);
  const Tensor targets = numbers({3, 4}, 5);
  Context context(1);
  std::vector<double> found[2];
  for (const bool frozen : {false, true}) {
    Tape tape(context);
    if (frozen) tape.freeze_parameters();
    MultiHeadState state;
    MultiHeadOptions options;
    options.attention.gates = gates;
    const Variable y = multihead(tape, shape, parameters, tape.constant(x.value), options, {}, true, state);
    cross_entropy(tape, linear(tape, y, tape.parameter(last)), targets);
    tape.backward();
    const double* dgates = state.gradients.dgates.as<double>();
    found[frozen].assign(dgates, dgates + 3 * kHeads);
    for (const Parameter* parameter : {&in, &out, &last}) {
      EXPECT_EQ(tape.gradient(tape.parameter(*parameter)).present(), !frozen) << parameter->name;
    }
    EXPECT_EQ(state.gradients.dparameters.in_proj_weight.present(), false) << "lent, and given back";
  }
  EXPECT_EQ(found[0], found[1]);
}

}  // namespace
}  // namespace polyhead::autograd
