// The layer through C comes to the bits of C++: results, gradients and memory.
#include "polyhead/layer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "capi/options.h"
#include "model/peak.h"
#include "support/bits.h"
#include "support/cases.h"

namespace polyhead::test {
namespace {

Tensor copied(const polyhead_results* results, const char* name) {
  polyhead_view view;
  EXPECT_EQ(polyhead_results_get(results, name, &view), POLYHEAD_OK) << polyhead_last_error();
  Dims shape(view.tensor.rank, 0);
  for (int axis = 0; axis < shape.rank(); ++axis) shape[axis] = view.tensor.shape[axis];
  Tensor made = Tensor::empty(shape, DType::f32);
  std::memcpy(made.view().data(), view.tensor.data, static_cast<std::size_t>(made.view().count()) * sizeof(float));
  return made;
}

// A layer in both languages, with heads that are normalised and rotated.
class Layer : public testing::Test {
 protected:
  Layer() {
    polyhead_layer_shape shape{};
    shape.size = sizeof shape;
    shape.width = 24;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.qk_norm = 1;
    expect_ok(polyhead_layer_create(in_c_context_, &shape, {2, 32, 1}, 7, &layer_));
    Random random("layer");
    for (Tensor* tensor : {&x_, &gates_, &doutput_}) fill_normal(*tensor, random);
    factors_.as<float>()[0] = 1;
    factors_.as<float>()[1] = 3;
    for (std::int32_t t = 0; t < 7; ++t) positions_.as<std::int32_t>()[t] = 3 * t;
    options_ = {.attention = {.causal = true, .gates = gates_},
                .qk_norm_epsilon = 1e-3,
                .rotary = Rotary{.layout = RotaryLayout::interleaved,
                                 .dim = 4,
                                 .base = 500,
                                 .scaling = {.factor = 8, .slow = 2, .fast = 5, .context = 16},
                                 .factors = factors_},
                .query_positions = positions_};
    fill(in_c_options_, options_.attention, in_c_);
    rotary_ = {.size = sizeof rotary_,
               .dim = 4,
               .base = 500,
               .interleaved = 1,
               .scaling_factor = 8,
               .scaling_slow = 2,
               .scaling_fast = 5,
               .scaling_context = 16,
               .factors = in_c_(factors_)};
    in_c_inputs_.size = sizeof in_c_inputs_;
    in_c_inputs_.query = in_c_(x_);
    in_c_inputs_.attention = &in_c_options_.c;
    in_c_inputs_.qk_norm_epsilon = 1e-3;
    in_c_inputs_.rotary = &rotary_;
    in_c_inputs_.query_positions = in_c_(positions_);
    wants_.size = sizeof wants_;
  }
  ~Layer() override {
    polyhead_results_free(results_);
    polyhead_layer_free(layer_);
  }
  polyhead_status forward() { return polyhead_layer_forward(in_c_context_, layer_, &in_c_inputs_, &wants_, &results_); }
  void expect_result(const Tensor& expected, const char* name) {
    expect_same_bits(expected, copied(results_, name), name);
  }

  Context context_{2};
  const CContext in_c_context_;
  InC in_c_;
  const MultiHeadAttention expected_{{.width = 24, .heads = 4, .kv_heads = 2, .qk_norm = true}, DType::f32, 7};
  polyhead_layer* layer_ = nullptr;
  Tensor x_ = Tensor::empty({2, 7, 24}, DType::f32), gates_ = Tensor::empty({4}, DType::f32),
         doutput_ = Tensor::empty({2, 7, 24}, DType::f32), positions_ = Tensor::empty({7}, DType::i32),
         factors_ = Tensor::empty({2}, DType::f32);
  const MultiHeadInputs inputs_{.query = x_};
  MultiHeadOptions options_;
  Options in_c_options_;
  polyhead_rotary rotary_{};
  polyhead_layer_inputs in_c_inputs_{};
  polyhead_layer_wants wants_{};
  polyhead_results* results_ = nullptr;
};

TEST_F(Layer, InCTrainsAsInCpp) {
  const MultiHeadResults forwards = expected_.forward(context_, inputs_, options_, MultiHeadWants::training());
  const MultiHeadGradients backward =
      expected_.backward(context_, inputs_, options_, forwards, {.output = doutput_}, {.gates = true});
  wants_.training = 1;
  expect_ok(forward());
  expect_result(forwards.output, "output");
  expect_result(forwards.heads, "heads");
  expect_result(forwards.lse, "lse");
  polyhead_results* gradients = nullptr;
  expect_ok(polyhead_layer_backward(in_c_context_, layer_, &in_c_inputs_, results_, in_c_(doutput_), &gradients));
  expect_same_bits(backward.dquery, copied(gradients, "dquery"), "dquery");
  expect_same_bits(backward.dparameters.in_proj_weight, copied(gradients, "in_proj_weight"), "in_proj_weight");
  expect_same_bits(backward.dparameters.out_proj_bias, copied(gradients, "out_proj.bias"), "out_proj.bias");
  expect_same_bits(backward.dparameters.q_norm_weight, copied(gradients, "q_norm.weight"), "q_norm.weight");
  expect_same_bits(backward.dparameters.k_norm_weight, copied(gradients, "k_norm.weight"), "k_norm.weight");
  expect_same_bits(backward.dgates, copied(gradients, "dgates"), "dgates");
  polyhead_view none;
  expect_refused(polyhead_results_get(gradients, "dkey", &none), POLYHEAD_VALUE, "found 'dkey'");
  expect_refused(polyhead_layer_backward(in_c_context_, layer_, &in_c_inputs_, gradients, in_c_(doutput_), &gradients),
                 POLYHEAD_VALUE, "forward");
  polyhead_results_free(gradients);
}

TEST_F(Layer, DropsInCWhatItDropsInCpp) {
  options_.attention.dropout = {.p = 0.3, .seed = 4, .origin = {.sequence = 1, .head = 2, .row = 3, .key = 5}};
  options_.output_dropout = {.p = 0.2, .seed = 8, .origin = {.sequence = 6, .row = 7}};
  const MultiHeadResults dropped = expected_.forward(context_, inputs_, options_);
  fill(in_c_options_, options_.attention, in_c_);
  const polyhead_origin origin = origin_of(options_.output_dropout);
  in_c_inputs_.output_dropout = 0.2;
  in_c_inputs_.output_dropout_seed = 8;
  in_c_inputs_.output_dropout_origin = &origin;
  expect_ok(forward());
  expect_result(dropped.output, "output");
}

TEST_F(Layer, GivesAllGradientsInC) {
  // Cross-attention of three widths, so that every projection has a weight of its own, with all that has a gradient.
  const MultiHeadShape sizes{
      .width = 24, .heads = 4, .kv_heads = 2, .key_width = 10, .value_width = 14, .qk_norm = true};
  const MultiHeadAttention expected(sizes, DType::f32, 3);
  polyhead_layer_shape shape{};
  shape.size = sizeof shape;
  shape.width = 24, shape.heads = 4, shape.kv_heads = 2, shape.key_width = 10, shape.value_width = 14;
  shape.qk_norm = 1;
  polyhead_layer* layer = nullptr;
  expect_ok(polyhead_layer_create(in_c_context_, &shape, {2, 32, 1}, 3, &layer));
  Tensor key = Tensor::empty({2, 9, 10}, DType::f32), value = Tensor::empty({2, 9, 14}, DType::f32),
         bias = Tensor::empty({4, 7, 9}, DType::f32), sink = Tensor::empty({4}, DType::f32);
  Random random("all gradients");
  for (Tensor* tensor : {&key, &value, &bias, &sink}) fill_normal(*tensor, random);
  const MultiHeadInputs inputs{.query = x_, .key = key, .value = value};
  const MultiHeadOptions options{.attention = {.bias = bias, .sink_logit = sink, .gates = gates_}};
  const MultiHeadResults forwards = expected.forward(context_, inputs, options, MultiHeadWants::training());
  const MultiHeadGradients backward = expected.backward(context_, inputs, options, forwards, {.output = doutput_},
                                                        {.bias = true, .sink_logit = true, .gates = true});
  fill(in_c_options_, options.attention, in_c_);
  in_c_inputs_.key = in_c_(key);
  in_c_inputs_.value = in_c_(value);
  in_c_inputs_.qk_norm_epsilon = 0;
  in_c_inputs_.rotary = nullptr;
  in_c_inputs_.query_positions = nullptr;
  wants_.training = 1;
  polyhead_results* gradients = nullptr;
  expect_ok(polyhead_layer_forward(in_c_context_, layer, &in_c_inputs_, &wants_, &results_));
  expect_ok(polyhead_layer_backward(in_c_context_, layer, &in_c_inputs_, results_, in_c_(doutput_), &gradients));
  const MultiHeadTensors& parameters = backward.dparameters;
  for (const auto& [name, tensor] : {std::pair<const char*, const Tensor*>{"dquery", &backward.dquery},
                                     {"dkey", &backward.dkey},
                                     {"dvalue", &backward.dvalue},
                                     {"q_proj_weight", &parameters.q_proj_weight},
                                     {"k_proj_weight", &parameters.k_proj_weight},
                                     {"v_proj_weight", &parameters.v_proj_weight},
                                     {"in_proj_bias", &parameters.in_proj_bias},
                                     {"out_proj.weight", &parameters.out_proj_weight},
                                     {"out_proj.bias", &parameters.out_proj_bias},
                                     {"q_norm.weight", &parameters.q_norm_weight},
                                     {"k_norm.weight", &parameters.k_norm_weight},
                                     {"dbias", &backward.dbias},
                                     {"dsink_logit", &backward.dsink_logit},
                                     {"dgates", &backward.dgates}}) {
    const Tensor found = copied(gradients, name);
    EXPECT_EQ(found.shape(), tensor->shape()) << name;
    expect_same_bits(*tensor, found, name);
  }
  polyhead_results_free(gradients);
  polyhead_layer_free(layer);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep books of their own
// Results are the caller's until they are freed; then the context keeps their memory for the next call, and gives it
// back when it is told to.
TEST_F(Layer, GivesMemoryBackInC) {
  const Tensor many = Tensor::zeros({4096, 16, 24}, DType::f32);  // 6 MB a result
  in_c_inputs_.query = in_c_(many);
  in_c_inputs_.rotary = nullptr;
  in_c_inputs_.query_positions = nullptr;
  fill(in_c_options_, {}, in_c_);
  constexpr double kMegabyte = 1 << 20;
  const double before = status("VmRSS");
  const auto megabytes = [&] { return (status("VmRSS") - before) / kMegabyte; };
  std::vector<polyhead_results*> results(8);
  for (polyhead_results*& one : results) {
    expect_ok(polyhead_layer_forward(in_c_context_, layer_, &in_c_inputs_, nullptr, &one));
  }
  EXPECT_GT(megabytes(), 45);
  for (polyhead_results* one : results) polyhead_results_free(one);
  for (polyhead_results*& one : results) {
    expect_ok(polyhead_layer_forward(in_c_context_, layer_, &in_c_inputs_, nullptr, &one));
  }
  EXPECT_LT(megabytes(), 90) << "what was freed is not used again";
  for (polyhead_results* one : results) polyhead_results_free(one);
  const double kept = megabytes();
  expect_ok(polyhead_context_release_memory(in_c_context_));
  EXPECT_LT(megabytes(), kept - 30);
}
#endif

TEST_F(Layer, GivesWhatIsWanted) {
  Tensor marked = Tensor::zeros({2, 7}, DType::boolean), targets = Tensor::zeros({2, 7, 4}, DType::i32);
  marked.as<bool>()[2] = true;
  const std::vector<std::int32_t> heads = {3, 1}, rows = {6};
  const MultiHeadWants wants{.attention = {.lse = true,
                                           .weights = true,
                                           .weight_heads = heads,
                                           .weight_rows = rows,
                                           .logits = LogitStage::scaled,
                                           .statistics = StatisticsSet::full,
                                           .row_statistics = true,
                                           .marked_keys = marked,
                                           .target_keys = targets},
                             .heads = true};
  const MultiHeadResults found = expected_.forward(context_, inputs_, options_, wants);
  wants_.weights = wants_.heads = wants_.lse = wants_.row_statistics = 1;
  wants_.statistics = 2;
  wants_.logit_stage = POLYHEAD_SCALED;
  wants_.weight_heads = heads.data();
  wants_.weight_rows = rows.data();
  wants_.weight_head_count = heads.size();
  wants_.weight_row_count = rows.size();
  wants_.marked_keys = in_c_(marked);
  wants_.target_keys = in_c_(targets);
  expect_ok(forward());
  expect_result(found.output, "output");
  expect_result(found.heads, "heads");
  expect_result(found.lse, "lse");
  expect_result(found.weights, "weights");
  expect_result(found.logits, "logits");
  expect_result(found.statistics, "statistics");
  expect_result(found.row_statistics, "row_statistics");
}

TEST_F(Layer, WhatIsWrongIsNamed) {
  polyhead_view view;
  expect_ok(polyhead_layer_parameter(layer_, "in_proj_weight", &view));
  EXPECT_EQ(view.tensor.shape[0], 48);
  expect_refused(polyhead_layer_parameter(layer_, "in_proj", &view), POLYHEAD_VALUE, "expected one of in_proj_weight,");
  std::string names;
  for (std::int32_t n = 0; const char* name = polyhead_layer_parameter_name(layer_, n); ++n)
    names += name + std::string(" ");
  EXPECT_EQ(names, "in_proj_weight in_proj_bias out_proj.weight out_proj.bias q_norm.weight k_norm.weight ");
  EXPECT_EQ(polyhead_layer_parameter_name(layer_, -1), nullptr);
  wants_.statistics = 3;
  expect_refused(forward(), POLYHEAD_VALUE, "statistics from 0 to 2, found 3");
  wants_.statistics = 0;
  rotary_.size = 0;
  expect_refused(forward(), POLYHEAD_VALUE, "rotary.size");
  in_c_inputs_.rotary = nullptr;
  expect_refused(forward(), POLYHEAD_VALUE, "no rotary");
}

}  // namespace
}  // namespace polyhead::test
