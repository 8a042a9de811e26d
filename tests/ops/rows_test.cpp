// Ops over rows check every tensor that they are given: each in turn is wrong in every way that it can be.
#include <gtest/gtest.h>

#include <functional>

#include "ops/adamw.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/norm.h"

namespace polyhead::ops {
namespace {

using Views = std::vector<TensorView>;

struct Given {
  std::string name;
  Dims shape;
  DType dtype = DType::f32;
  bool optional = false;
  bool strided = false;  // need not be row-major
};
struct RowsCall {
  std::string op;
  std::vector<Given> given;  // the first one says what the others must be
  std::function<void(Context&, const Views&)> run;
};

std::vector<RowsCall> calls() {
  const Dims matrix{4, 6}, wide{4, 12}, vector{6}, rows{4}, pairs{4, 2}, tokens{2, 3}, stream{2, 3, 6};
  return {
      {"normalise",
       {{"x", matrix}, {"gamma", vector}, {"beta", vector, DType::f32, true}, {"y", matrix}, {"scales", pairs}},
       [](Context& c, const Views& v) { normalise(c, v[0], v[1], v[2], 1e-5, v[3], v[4]); }},
      {"normalise_backward",
       {{"x", matrix},
        {"gamma", vector},
        {"scales", pairs},
        {"dy", matrix},
        {"plus", matrix, DType::f32, true},
        {"dx", matrix},
        {"dgamma", vector},
        {"dbeta", vector, DType::f32, true}},
       [](Context& c, const Views& v) { normalise_backward(c, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]); }},
      {"add",
       {{"a", matrix}, {"b", matrix}, {"y", matrix}},
       [](Context& c, const Views& v) { elementwise(c, Elementwise::add, v[0], v[1], v[2]); }},
      {"gate", {{"x", wide}, {"y", matrix}}, [](Context& c, const Views& v) { gate(c, Gate::silu, v[0], v[1]); }},
      {"gate_backward",
       {{"x", wide}, {"dy", matrix}, {"dx", wide}},
       [](Context& c, const Views& v) { gate_backward(c, Gate::silu, v[0], v[1], v[2]); }},
      {"add_row",
       {{"x", matrix}, {"row", vector}, {"y", matrix}},
       [](Context& c, const Views& v) { add_row(c, v[0], v[1], v[2]); }},
      {"add_row_backward",
       {{"dy", matrix}, {"drow", vector}},
       [](Context& c, const Views& v) { add_row_backward(c, v[0], v[1]); }},
      {"embed",
       {{"y", stream}, {"table", matrix}, {"indices", tokens, DType::i32}, {"positions", matrix, DType::f32, true}},
       [](Context& c, const Views& v) { embed(c, v[1], v[2], v[3], v[0]); }},
      {"embed_backward",
       {{"dy", stream}, {"indices", tokens, DType::i32}, {"dtable", matrix}},
       [](Context& c, const Views& v) { embed_backward(c, v[0], v[1], v[2]); }},
      {"positions_backward",
       {{"dy", stream}, {"dpositions", matrix}},
       [](Context& c, const Views& v) { positions_backward(c, v[0], v[1]); }},
      {"pool",
       {{"x", stream}, {"lengths", {2}, DType::i32, true, true}, {"y", {2, 6}}},
       [](Context& c, const Views& v) { pool(c, v[0], v[1], v[2]); }},
      {"pool_backward",
       {{"dx", stream}, {"lengths", {2}, DType::i32, true, true}, {"dy", {2, 6}}},
       [](Context& c, const Views& v) { pool_backward(c, v[2], v[1], v[0]); }},
      {"cross_entropy",
       {{"logits", matrix},
        {"targets", rows, DType::i32},
        {"losses", rows},
        {"shares", rows},
        {"dlogits", matrix, DType::f32, true},
        {"looks", pairs, DType::f32, true}},
       [](Context& c, const Views& v) { cross_entropy(c, v[0], v[1], Share::all, v[2], v[3], v[4], v[5]); }},
      {"adamw",
       {{"weight", matrix}, {"first moment", matrix}, {"second moment", matrix}, {"gradient", matrix}},
       [](Context& c, const Views& v) {
         adamw(c, {}, 1, 1, std::vector{backend::AdamWTensor{v[0], v[1], v[2], v[3]}});
       }},
      {"drop", {{"x", stream}, {"y", stream}}, [](Context& c, const Views& v) { drop(c, v[0], {.p = 0.5}, v[1]); }},
  };
}

Dims longer(Dims shape) {
  ++shape[shape.rank() - 1];
  return shape;
}

void expect_refused(const RowsCall& call, Context& context, const Views& views, const std::string& name) {
  try {
    call.run(context, views);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(call.op), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  }
}

TEST(Rows, EveryTensorIsChecked) {
  Context context(1);
  for (const RowsCall& call : calls()) {
    std::vector<Tensor> tensors;
    Views right;
    for (const Given& one : call.given) {
      right.push_back(tensors.emplace_back(Tensor::zeros(one.shape, one.dtype)));
      // Lengths of 0 have no mean.
      if (one.name == "lengths") std::fill_n(tensors.back().as<std::int32_t>(), 2, 3);
    }
    EXPECT_NO_THROW(call.run(context, right)) << call.op;
    for (std::size_t n = 0; n < right.size(); ++n) {
      const Given& one = call.given[n];
      SCOPED_TRACE(call.op + ": " + one.name);
      const std::string named = n == 0 ? "" : one.name;  // where the first one differs, the others do not fit
      // As much memory as any of them could take.
      Tensor other = Tensor::zeros({2 * count_of(longer(one.shape))}, DType::f64);
      void* memory = other.view().data();
      Views wrong = right;
      const auto refuse = [&](const char* how, const TensorView& view) {
        SCOPED_TRACE(how);
        wrong[n] = view;
        expect_refused(call, context, wrong, named);
      };
      const Dims strides = contiguous_strides(one.shape), size = longer(one.shape);
      refuse("one column more", TensorView(memory, one.dtype, size, contiguous_strides(size)));
      refuse("another type", TensorView(memory, DType::f64, one.shape, strides));
      if (!one.optional) refuse("absent", {});
      if (one.strided) continue;
      Dims apart = strides;
      for (int axis = 0; axis < apart.rank(); ++axis) apart[axis] *= 2;
      refuse("every other number", TensorView(memory, one.dtype, one.shape, apart));
    }
  }
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
          std::vector{backend::AdamWTensor{one, one, one, one}, backend::AdamWTensor{second, second, second, second}});
  };
  EXPECT_NO_THROW(step(one));
  EXPECT_THROW(step(other), Error);
}

}  // namespace
}  // namespace polyhead::ops
