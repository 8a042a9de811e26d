// The layer as its users know it: the forms of the teaching texts with their numbers, torch's own results, and what is
// refused.
#include "polyhead/layer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "polyhead/linear.h"
#include "support/npy.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

void expect_near(const char* what, const ConstTensorView& got, const ConstTensorView& expected, double tolerance) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const reference::Array<double> g(got), e(expected);
  for (std::size_t n = 0; n < e.values().size(); ++n) {
    ASSERT_NEAR(g.values()[n], e.values()[n], tolerance) << what << " at " << n;
  }
}

std::int64_t total(const MultiHeadShape& shape) {
  const std::vector<ParameterCount> items = count_parameters(shape);
  return std::accumulate(items.begin(), items.end(), std::int64_t{0},
                         [](std::int64_t sum, const ParameterCount& item) { return sum + item.count; });
}

// Text A: four single heads of 32 on width 128, concatenated and projected; both of its counts can be read off.
TEST(TextA, SingleHeadsSideBySideAreTheLayer) {
  const std::vector<ParameterCount> items = count_parameters({.width = 128, .heads = 4});
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0].count + items[1].count + items[2].count, 49152);
  EXPECT_EQ(items[4].name, "output weight");
  EXPECT_EQ(items[4].count, 16384);
  EXPECT_EQ(items[5].count, 128);

  Context context(2);
  const MultiHeadAttention layer({.width = 128, .heads = 4}, DType::f64, 3);
  const Tensor x = normal({2, 10, 128}, "x", DType::f64);
  const AttentionOptions causal{.causal = true};
  const std::vector<SingleHeadAttention> heads = layer.to_heads();
  Tensor merged = Tensor::empty({2, 10, 128}, DType::f64);
  for (std::size_t h = 0; h < 4; ++h) {
    const Tensor one = heads[h].forward(context, x, causal);
    ASSERT_EQ(one.shape(), (Dims{2, 10, 32}));
    reference::Array<double>(one.view())
        .store_to(merged.view().slice(2, static_cast<std::int64_t>(32 * h), static_cast<std::int64_t>(32 * h + 32)));
  }
  const Tensor output = linear(context, merged, layer.parameters().out_proj_weight, layer.parameters().out_proj_bias);
  const MultiHeadResults fused = layer.forward(context, {x}, {.attention = causal}, {.heads = true});
  expect_near("heads", fused.heads, merged, 1e-13);
  expect_near("output", fused.output, output, 1e-13);

  // And back to one layer, with the same outputs to the bit.
  const MultiHeadAttention again =
      MultiHeadAttention::from_heads(heads, layer.parameters().out_proj_weight, layer.parameters().out_proj_bias);
  expect_near("there and back", again.forward(context, {x}, {.attention = causal}).output, fused.output, 0);
}

// Text B: [4,16,512] -> four heads of 128; the heads before W_O and after it; 4 d^2 parameters.
TEST(TextB, FusedFormAndItsCounts) {
  EXPECT_EQ(total({.width = 768, .heads = 12, .bias = false}), 2359296);
  EXPECT_EQ(total({.width = 768, .heads = 12}), 2362368);
  EXPECT_EQ(total({.width = 512, .heads = 1, .bias = false}), total({.width = 512, .heads = 8, .bias = false}));

  Context context(2);
  const MultiHeadAttention layer({.width = 512, .heads = 4, .bias = false}, DType::f32, 1);
  const Tensor x = normal({4, 16, 512}, "x", DType::f32);
  Tensor may = Tensor::zeros({16, 16}, DType::boolean);  // 0: may not attend
  for (std::int64_t i = 0; i < 16; ++i) std::fill_n(may.as<bool>() + 16 * i, i + 1, true);
  const MultiHeadResults results =
      layer.forward(context, {x}, {.attention = {.keep = may}}, {.heads = true, .projections = true});
  EXPECT_EQ(results.projections.q.shape(), (Dims{4, 4, 16, 128}));
  EXPECT_EQ(results.heads.shape(), (Dims{4, 16, 512}));
  EXPECT_EQ(results.output.shape(), (Dims{4, 16, 512}));
  expect_near("W_O mixes the heads", linear(context, results.heads, layer.parameters().out_proj_weight), results.output,
              0);
  expect_near("a causal mask", layer.forward(context, {x}, {.attention = {.causal = true}}).output, results.output,
              1e-5);
}

// Text C: cross-attention without bias that returns output and weights; its own test.
TEST(TextC, CrossAttentionReturnsWeights) {
  EXPECT_EQ(total({.width = 512, .heads = 8, .bias = false}), 4 * 512 * 512);
  Context context(2);
  const MultiHeadAttention layer({.width = 512, .heads = 8, .bias = false}, DType::f32, 2);
  const Tensor query = normal({2, 10, 512}, "q", DType::f32), memory = normal({2, 15, 512}, "kv", DType::f32);
  Tensor keep = Tensor::empty({2, 1, 1, 15}, DType::boolean);
  for (std::int64_t n = 0; n < 30; ++n) keep.as<bool>()[n] = n % 15 < 12;
  const MultiHeadResults results =
      layer.forward(context, {query, memory, memory}, {.attention = {.keep = keep}}, {.attention = {.weights = true}});
  EXPECT_EQ(results.output.shape(), (Dims{2, 10, 512}));
  ASSERT_EQ(results.weights.shape(), (Dims{2, 8, 10, 15}));
  for (std::int64_t row = 0; row < 2 * 8 * 10; ++row) {
    const float* weights = results.weights.as<float>() + row * 15;
    EXPECT_NEAR(std::accumulate(weights, weights + 15, 0.0), 1, 1e-5);
    for (int hidden = 12; hidden < 15; ++hidden) EXPECT_EQ(weights[hidden], 0);
  }
}

// Text D: dropout after the projection, off in evaluation, the same again for the same seed.
TEST(TextD, OutputDropout) {
  Context context(2);
  const MultiHeadAttention layer({.width = 64, .heads = 4}, DType::f64, 1);
  const Tensor x = normal({3, 20, 64}, "x", DType::f64);
  const MultiHeadOptions training{.attention = {.causal = true}, .output_dropout = {.p = 0.25, .seed = 7}};
  const Tensor kept = layer.forward(context, {x}, {.attention = {.causal = true}}).output,
               once = layer.forward(context, {x}, training).output,
               twice = layer.forward(context, {x}, training).output;
  expect_near("the same seed", once, twice, 0);
  int zeros = 0;
  for (std::int64_t n = 0; n < 3 * 20 * 64; ++n) {
    const double value = once.as<double>()[n];
    zeros += value == 0;
    ASSERT_TRUE(value == 0 || std::abs(value - kept.as<double>()[n] / 0.75) < 1e-15) << n;
  }
  EXPECT_NEAR(zeros / (3.0 * 20 * 64), 0.25, 0.03);
}

// A torch state dict gives torch's outputs, weights and gradients.
void expect_torch(const std::string& name, const MultiHeadShape& shape, bool self) {
  SCOPED_TRACE(name);
  const std::filesystem::path folder = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures" / name;
  const auto read = [&](const std::string& array) { return read_npy(folder / (array + ".npy")); };
  Context context(2);
  MultiHeadAttention layer(shape, DType::f64);
  for (auto& [entry, tensor] : layer.state()) {
    const Tensor from = read(entry);
    ASSERT_EQ(from.shape(), tensor.shape()) << entry;
    reference::Array<double>(from.view()).store_to(tensor);
  }
  const Tensor query = read("query"), key = self ? Tensor() : read("key"), value = self ? Tensor() : read("value");
  const Tensor doutput = read("doutput"), dweights = read("dweights");
  const MultiHeadInputs inputs{query, key, value};
  const MultiHeadOptions options{.attention = {.causal = self}};
  MultiHeadWants wants = MultiHeadWants::training();
  wants.attention.weights = true;
  const MultiHeadResults results = layer.forward(context, inputs, options, wants);
  expect_near("output", results.output, read("output"), 1e-12);
  expect_near("weights", results.weights, read("weights"), 1e-12);
  const MultiHeadGradients d =
      layer.backward(context, inputs, options, results, {.output = doutput, .weights = dweights});
  expect_near("dquery", d.dquery, read("dquery"), 1e-11);
  if (!self) {
    expect_near("dkey", d.dkey, read("dkey"), 1e-11);
    expect_near("dvalue", d.dvalue, read("dvalue"), 1e-11);
  }
  const MultiHeadTensors& p = d.dparameters;
  const std::pair<const char*, const Tensor*> gradients[] = {
      {"in_proj_weight", &p.in_proj_weight}, {"q_proj_weight", &p.q_proj_weight},
      {"k_proj_weight", &p.k_proj_weight},   {"v_proj_weight", &p.v_proj_weight},
      {"in_proj_bias", &p.in_proj_bias},     {"out_proj.weight", &p.out_proj_weight},
      {"out_proj.bias", &p.out_proj_bias}};
  for (const auto& [entry, gradient] : gradients) {
    ASSERT_EQ(gradient->present(), std::filesystem::exists(folder / (std::string(entry) + ".npy"))) << entry;
    if (gradient->present()) expect_near(entry, *gradient, read(std::string("d") + entry), 1e-11);
  }
}

TEST(Torch, StateDictGivesItsOutputsAndGradients) {
  expect_torch("torch_self_causal", {.width = 12, .heads = 3}, true);
  expect_torch("torch_cross_widths", {.width = 8, .heads = 2, .key_width = 10, .value_width = 7}, false);
  expect_torch("torch_cross_no_bias", {.width = 8, .heads = 4, .bias = false}, false);
}

TEST(Layer, IsInitialisedAsTorchDoes) {
  MultiHeadAttention layer({.width = 64, .heads = 4}, DType::f32, 9);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : layer.state()) {
    names.push_back(name);
    const reference::Array<double> values(tensor);
    double largest = 0, sum = 0;
    for (const double value : values.values()) {
      largest = std::max(largest, std::abs(value));
      sum += value;
    }
    if (name.ends_with("bias")) {
      EXPECT_EQ(largest, 0) << name;
      continue;
    }
    const double bound = name == "in_proj_weight" ? std::sqrt(6.0 / (192 + 64)) : 1 / std::sqrt(64.0);
    EXPECT_LE(largest, bound) << name;
    EXPECT_GT(largest, 0.99 * bound) << name;
    EXPECT_NEAR(sum / static_cast<double>(values.values().size()), 0, 0.05 * bound) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  // The output's spread is by what comes in, all heads side by side, and not by the width that goes out.
  MultiHeadAttention narrow({.width = 64, .heads = 4, .head_dim = 4}, DType::f32, 9);
  const reference::Array<double> out(narrow.parameters().out_proj_weight);
  double largest = 0;
  for (const double value : out.values()) largest = std::max(largest, std::abs(value));
  EXPECT_LE(largest, 0.25);
  EXPECT_GT(largest, 0.99 * 0.25);
  MultiHeadAttention other({.width = 64, .heads = 4}, DType::f32, 10);
  EXPECT_NE(layer.state()[0].second.as<float>()[0], other.state()[0].second.as<float>()[0]);
}

// Packed weights change nothing but the time, and are forgotten when the weights change.
TEST(Layer, PackedGivesTheSameBits) {
  Context context(2);
  MultiHeadAttention layer({.width = 48, .heads = 4, .kv_heads = 2}, DType::f32, 3);
  const Tensor x = normal({2, 7, 48}, "x", DType::f32), memory = normal({2, 5, 48}, "m", DType::f32);
  const Tensor self = layer.forward(context, {x}).output, cross = layer.forward(context, {x, memory}).output;
  layer.pack(context);
  expect_near("self", layer.forward(context, {x}).output, self, 0);
  expect_near("cross", layer.forward(context, {x, memory}).output, cross, 0);
  const TensorView weight = layer.state()[0].second;
  std::fill_n(weight.as<float>(), weight.count(), 0.0f);
  const Tensor changed = layer.forward(context, {x}).output;
  EXPECT_NE(changed.as<float>()[0], self.as<float>()[0]);
}

// What an error says.
template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(LayerErrors, SayWhatWasExpectedAndFound) {
  Context context(1);
  EXPECT_NE(message_of([] { MultiHeadAttention({.width = 10, .heads = 3}); }).find("divides the width 10, found 3"),
            std::string::npos);
  EXPECT_THROW(MultiHeadAttention({.width = 12, .heads = 4, .kv_heads = 3}), Error);
  EXPECT_THROW(MultiHeadAttention({.width = 0, .heads = 4}), Error);
  EXPECT_THROW(MultiHeadAttention({.width = 12, .heads = 4}, DType::i32), Error);

  const MultiHeadAttention layer({.width = 12, .heads = 3}, DType::f32);
  const Tensor x = normal({2, 5, 12}, "x", DType::f32), wide = normal({2, 5, 13}, "x", DType::f32),
               doubles = normal({2, 5, 12}, "x", DType::f64), flat = normal({5, 12}, "x", DType::f32);
  EXPECT_NE(message_of([&] { layer.forward(context, {wide}); }).find("[2,5,12]"), std::string::npos);
  EXPECT_NE(message_of([&] { layer.forward(context, {doubles}); }).find("query: expected f32 as the parameters are"),
            std::string::npos);
  EXPECT_THROW(layer.forward(context, {flat}), Error);
  EXPECT_THROW(layer.forward(context, {}), Error);
  EXPECT_THROW(layer.forward(context, {x, wide}), Error);
  EXPECT_THROW(layer.forward(context, {x, {}, x}), Error);
  EXPECT_THROW(layer.forward(context, {x}, {.output_dropout = {.p = 1}}), Error);
  EXPECT_THROW(layer.forward(context, {x}, {.rotary = Rotary{.dim = 5}}), Error);

  const MultiHeadResults evaluated = layer.forward(context, {x});
  EXPECT_NE(message_of([&] { layer.backward(context, {x}, {}, evaluated, {.output = x}); }).find("training()"),
            std::string::npos);
  const MultiHeadResults trained = layer.forward(context, {x}, {}, MultiHeadWants::training());
  EXPECT_NE(message_of([&] { layer.backward(context, {x}, {}, trained, {.output = wide}); }).find("doutput: expected"),
            std::string::npos);
  EXPECT_THROW(layer.backward(context, {x}, {}, trained, {}), Error);
  EXPECT_THROW(layer.backward(context, {x}, {}, trained, {.output = x}, {.bias = true}), Error);

  MultiHeadViews foreign = layer.parameters();
  foreign.in_proj_bias = doubles;
  EXPECT_NE(message_of([&] { multihead(context, {.width = 12, .heads = 3}, foreign, {x}); }).find("in_proj_bias: exp"),
            std::string::npos);
  foreign.out_proj_weight = x;
  EXPECT_THROW(multihead(context, {.width = 12, .heads = 3}, foreign, {x}), Error);
  EXPECT_THROW(MultiHeadAttention::from_heads({}, x), Error);
  std::vector<SingleHeadAttention> heads = layer.to_heads();
  heads[1].query_bias = Tensor();
  EXPECT_THROW(MultiHeadAttention::from_heads(heads, layer.parameters().out_proj_weight), Error);
  EXPECT_THROW(count_parameters({.width = std::int64_t{1} << 40, .heads = 4}), Error);
  EXPECT_THROW(MultiHeadAttention({.width = 12, .heads = 4, .kv_heads = 2}).to_heads(), Error);
}

}  // namespace
}  // namespace polyhead::test
