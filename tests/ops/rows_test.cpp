// Ops over rows: every tensor that they are given, wrong in every way.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "ops/spoilt.h"
#include "polyhead/linear.h"
#include "support/bits.h"
#include "support/fenced_device.h"

namespace polyhead::ops {
namespace {

using test::Call, test::Given, test::Views;

std::vector<Call> calls() {
  const Dims matrix{4, 6}, wide{4, 12}, vector{6}, rows{4}, pairs{4, 2}, tokens{2, 3}, stream{2, 3, 6},
      heads{2, 5, 3, 6};
  const Given indices{"indices", tokens, DType::i32, {1}}, lengths{"lengths", {2}, DType::i32, {3}};
  return {
      {"normalise",
       {{"x", matrix}, {"gamma", vector}, {"beta", vector}, {"y", matrix}, {"mean_rstd", pairs}},
       [](Context& c, const Views& v) { normalise(c, v["x"], v["gamma"], v["beta"], 1e-5, v["y"], v["mean_rstd"]); }},
      {"normalise_backward",
       {{"x", matrix},
        {"gamma", vector},
        {"mean_rstd", pairs},
        {"dy", matrix},
        {"plus", matrix},
        {"dx", matrix},
        {"dgamma", vector},
        {"dbeta", vector}},
       [](Context& c, const Views& v) {
         normalise_backward(c, v["x"], v["gamma"], v["mean_rstd"], v["dy"], v["plus"], v["dx"], v["dgamma"],
                            v["dbeta"]);
       }},
      {"normalise_heads",
       {{"x", heads}, {"gamma", vector}},
       [](Context& c, const Views& v) {
         // [B,T,H,D] as [B,H,T,D].
         normalise_heads(c, v["x"].rank() == 4 ? v["x"].transpose(1, 2) : v["x"], v["gamma"], 1e-5);
       }},
      {"add",
       {{"a", matrix}, {"b", matrix}, {"y", matrix}},
       [](Context& c, const Views& v) { elementwise(c, Elementwise::add, v["a"], v["b"], v["y"]); }},
      {"gelu",
       {{"a", matrix}, {"y", matrix}},
       [](Context& c, const Views& v) { elementwise(c, Elementwise::gelu, v["a"], {}, v["y"]); }},
      {"gelu_backward",
       {{"a", matrix}, {"b", matrix}, {"y", matrix}, {"sums", vector}},
       [](Context& c, const Views& v) {
         elementwise(c, Elementwise::gelu_backward, v["a"], v["b"], v["y"], 1, v["sums"]);
       }},
      {"round",
       {{"from", matrix}, {"to", matrix, DType::bf16}},
       [](Context& c, const Views& v) {
         round(c, std::vector<ConstTensorView>{v["from"]}, std::vector<TensorView>{v["to"]});
       }},
      {"round_and_sum",
       {{"x", matrix}, {"rounded", matrix, DType::bf16}, {"sums", vector}},
       [](Context& c, const Views& v) { round_and_sum(c, v["x"], v["rounded"], v["sums"]); }},
      {"gate", {{"x", wide}, {"y", matrix}}, [](Context& c, const Views& v) { gate(c, Gate::silu, v["x"], v["y"]); }},
      {"gate_backward",
       {{"x", wide}, {"dy", matrix}, {"dx", wide}},
       [](Context& c, const Views& v) { gate_backward(c, Gate::silu, v["x"], v["dy"], v["dx"]); }},
      {"add_row",
       {{"x", matrix}, {"row", vector}, {"y", matrix}},
       [](Context& c, const Views& v) { add_row(c, v["x"], v["row"], v["y"]); }},
      {"add_row_backward",
       {{"dy", matrix}, {"drow", vector}},
       [](Context& c, const Views& v) { add_row_backward(c, v["dy"], v["drow"]); }},
      {"embed",
       {{"y", stream}, {"table", matrix}, indices, {"positions", matrix}},
       [](Context& c, const Views& v) { embed(c, v["table"], v["indices"], v["positions"], v["y"]); }},
      {"embed_backward",
       {{"dy", stream}, indices, {"dtable", matrix}},
       [](Context& c, const Views& v) { embed_backward(c, v["dy"], v["indices"], v["dtable"]); }},
      {"positions_backward",
       {{"dy", stream}, {"dpositions", {3, 6}}},
       [](Context& c, const Views& v) { positions_backward(c, v["dy"], v["dpositions"]); }},
      {"pool",
       {{"x", stream}, lengths, {"y", {2, 6}}},
       [](Context& c, const Views& v) { pool(c, v["x"], v["lengths"], v["y"]); }},
      {"pool_backward",
       {{"dx", stream}, lengths, {"dy", {2, 6}}},
       [](Context& c, const Views& v) { pool_backward(c, v["dy"], v["lengths"], v["dx"]); }},
      {"cross_entropy",
       {{"logits", matrix},
        {"targets", rows, DType::i32, {1}},
        {"losses", rows},
        {"shares", rows},
        {"totals", {2}, DType::f64},
        {"dlogits", matrix},
        {"target_scores", pairs}},
       [](Context& c, const Views& v) {
         cross_entropy(c, v["logits"], v["targets"], Share::all, v["losses"], v["shares"], v["totals"], v["dlogits"],
                       v["target_scores"]);
       }},
      {"adamw",
       {{"weight", matrix}, {"first moment", matrix}, {"second moment", matrix}, {"gradient", matrix}},
       [](Context& c, const Views& v) {
         adamw(c, {}, 1, 1,
               std::vector{kernels::AdamWTensor{v["weight"], v["first moment"], v["second moment"], v["gradient"]}});
       }},
      {"sums_of_squares",
       {{"x", matrix}, {"other", matrix}, {"sums", {2}, DType::f64}},
       [](Context& c, const Views& v) {
         sums_of_squares(c, std::vector<ConstTensorView>{v["x"], v["other"]}, v["sums"]);
       }},
      {"drop", {{"x", stream}, {"y", stream}}, [](Context& c, const Views& v) { drop(c, v["x"], {.p = 0.5}, v["y"]); }},
  };
}

TEST(Rows, EveryTensorIsChecked) { test::expect_kept_messages("rows.txt", test::SpoiltCalls::messages_of(calls())); }

// Numbers at their limits, and what an empty tensor is to those who need one row.
TEST(Rows, NumbersAreChecked) {
  Context context(1);
  Tensor x = Tensor::zeros({2, 3, 4}, DType::f32), y = Tensor::zeros({2, 3, 4}, DType::f32),
         gamma = Tensor::zeros({4}, DType::f32), mean_rstd = Tensor::zeros({6, 2}, DType::f32),
         pooled = Tensor::zeros({2, 4}, DType::f32);
  const auto normed = [&](double epsilon) { normalise(context, x, gamma, {}, epsilon, y, mean_rstd); };
  const auto normed_heads = [&](double epsilon) {
    normalise_heads(context, x.view().split(2, 1).transpose(1, 2), gamma, epsilon);
  };
  EXPECT_EQ(said([&] { normed(1e-30); }), "accepted");
  EXPECT_EQ(said([&] { normed(0); }), "value [normalise] epsilon: expected a positive number");
  EXPECT_EQ(said([&] { normed(std::nan("")); }), "value [normalise] epsilon: expected a positive number");
  EXPECT_EQ(said([&] { normed_heads(1e-30); }), "accepted");
  EXPECT_EQ(said([&] { normed_heads(0); }), "value [normalise_heads] epsilon: expected a positive number");
  EXPECT_EQ(said([&] {
              pool(context, pooled.view().reshape({2, 1, 4}), {}, Tensor::empty({2, 4}, DType::f32).view());
            }),
            "accepted");
  EXPECT_EQ(said([&] { pool(context, x.view().slice(1, 0, 0), {}, pooled); }),
            "shape [pool] expected one token or more, found none");
  EXPECT_EQ(said([&] { pool_backward(context, pooled, {}, x.view().slice(1, 0, 0)); }),
            "shape [pool_backward] expected one token or more, found none");
  for (const double p : {-1e-9, 1.0}) {
    EXPECT_EQ(said([&] { drop(context, x, {.p = p}, y); }),
              "value [drop] dropout: expected 0 <= p < 1, found " + std::to_string(p));
  }
  EXPECT_EQ(said([&] { drop(context, x, {.p = 0}, y); }), "accepted");
  const auto step = [&](std::int64_t n) { adamw(context, {}, n, 1, std::vector{kernels::AdamWTensor{x, x, x, y}}); };
  EXPECT_EQ(said([&] { step(1); }), "accepted");
  EXPECT_EQ(said([&] { step(0); }), "value [adamw] step: expected 1 or more, found 0");
}

// On a device numbers may have a type of their own, but not in memory that others are still read from.
TEST(Rows, TypesOfADeviceDoNotShareMemory) {
  Context device = test::fenced_context();
  const Tensor memory = Tensor::zeros({4, 6}, DType::f32, device.allocator());
  const TensorView y(const_cast<void*>(memory.view().data()), DType::f32, {4, 6}, {6, 1}, device.device());
  const TensorView narrow(y.data(), DType::f16, {4, 6}, {6, 1}, device.device());
  const std::string words = "layout [add] y: expected memory apart from inputs of another type, found f32 [4,6] on " +
                            to_string(device.device()) + " with strides [6,1]";
  EXPECT_EQ(said([&] { elementwise(device, Elementwise::add, narrow, y, y); }), words);
  EXPECT_EQ(said([&] { elementwise(device, Elementwise::add, y, narrow, y); }), words);
  EXPECT_EQ(said([&] { elementwise(device, Elementwise::add, y, y, y); }), "accepted");
}

TEST(Rows, OnlySlopesOfActivationsAreSummed) {
  Context context(1);
  Tensor x = Tensor::zeros({4, 6}, DType::f32), y = Tensor::zeros({4, 6}, DType::f32),
         sums = Tensor::zeros({6}, DType::f32);
  EXPECT_EQ(said([&] { elementwise(context, Elementwise::erf_gelu_backward, x, x, y, 1, sums); }), "accepted");
  EXPECT_EQ(said([&] { elementwise(context, Elementwise::add, x, x, y, 1, sums); }),
            "unsupported [add] sums: expected none but for a backward, found f32 [6]");
}

// Tensors of a step have one type, and there is a sum for each.
TEST(Rows, TensorsOfAStepHaveOneType) {
  Context context(1);
  Tensor one = Tensor::zeros({4, 6}, DType::f32), other = Tensor::zeros({4, 6}, DType::f64),
         sums = Tensor::zeros({2}, DType::f64);
  const auto squares = [&](const std::vector<ConstTensorView>& of, const TensorView& to) {
    sums_of_squares(context, of, to);
  };
  EXPECT_NO_THROW(squares({one, one}, sums));
  EXPECT_THROW(squares({one, other}, sums), Error);
  EXPECT_THROW(squares({one}, sums), Error);
  EXPECT_THROW(squares({one, one}, TensorView(sums.as<float>(), {2})), Error);
  EXPECT_THROW(squares({one, one.view().transpose(0, 1)}, sums), Error);
  const auto step = [&](Tensor& second) {
    adamw(context, {}, 1, 1,
          std::vector{kernels::AdamWTensor{one, one, one, one}, kernels::AdamWTensor{second, second, second, second}});
  };
  EXPECT_NO_THROW(step(one));
  EXPECT_THROW(step(other), Error);
}

// Neither NumPy, PyTorch nor a transposed view say what the stride of a lone element is.
TEST(RowMajor, TheStrideOfALoneElementDoesNotMatter) {
  Context context(1);
  const auto odd = [](const auto& view) {
    Dims strides = view.strides();
    for (int axis = 0; axis < view.rank(); ++axis) strides[axis] = view.shape(axis) == 1 ? 77 : strides[axis];
    return view.as_strided(view.shape(), strides);
  };
  const auto made = [](const Dims& shape) {
    Tensor tensor = Tensor::empty(shape, DType::f32);
    for (std::int64_t n = 0; n < count_of(shape); ++n) tensor.as<float>()[n] = 0.25f * static_cast<float>(n % 7) - 1;
    return tensor;
  };
  Tensor tokens = Tensor::zeros({3, 1}, DType::i32), totals = Tensor::zeros({2}, DType::f64);
  for (std::int32_t n = 0; n < 3; ++n) tokens.as<std::int32_t>()[n] = n;
  const Tensor table = made({5, 4}), weight = made({2, 4}), x = made({3, 1, 4}), dy = made({3, 1, 2});
  // Into tensors whose strides are as they should be, and into others.
  const auto results = [&](const auto& strided) {
    std::vector<Tensor> all;
    const auto into = [&](const Dims& shape) {
      return strided(all.emplace_back(Tensor::zeros(shape, DType::f32)).view());
    };
    all.reserve(9);
    embed(context, table, strided(ConstTensorView(tokens)), {}, into({3, 1, 4}));
    elementwise(context, Elementwise::gelu, strided(ConstTensorView(x)), {}, into({3, 1, 4}));
    polyhead::linear_into(context, x, weight, {}, into({3, 1, 2}));
    const TensorView dx = into({3, 1, 4}), dweight = into({2, 4}), dbias = into({2});
    linear_backward_into(context, x, weight, dy, {dx, dweight, dbias});
    const TensorView losses = into({3, 1}), shares = into({3, 1}), dlogits = into({3, 1, 4});
    cross_entropy(context, strided(ConstTensorView(x)), strided(ConstTensorView(tokens)), Share::all, losses, shares,
                  totals, dlogits, {});
    return all;
  };
  const std::vector<Tensor> expected = results([](const auto&view) { return view; }), found = results(odd);
  for (std::size_t n = 0; n < expected.size(); ++n) {
    EXPECT_TRUE(test::same_bits("result " + std::to_string(n), found[n], expected[n]));
  }
}

}  // namespace
}  // namespace polyhead::ops
