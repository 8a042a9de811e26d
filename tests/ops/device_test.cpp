// A device that is not the CPU, through the same ops: the bits of the CPU, and no look into its memory from above the
// table of kernels.
#include <gtest/gtest.h>

#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "polyhead/cache.h"
#include "polyhead/layer.h"
#include "support/bits.h"
#include "support/cases.h"
#include "support/fenced_device.h"

namespace polyhead::test {
namespace {

// Every tensor on its way to the device and back.
class Devices : public ::testing::Test {
 protected:
  Context cpu_{2};
  Context device_ = fenced_context();

  ConstTensorView there(const ConstTensorView& view) {
    if (!view.present()) return {};
    memory_.push_back(clone(device_, view));
    return memory_.back();
  }
  Tensor back(const Tensor& tensor) {
    if (!tensor.present()) return {};
    EXPECT_EQ(tensor.device(), device_.device());
    return to_host(device_, tensor);
  }
  Attention back(const Attention& a) {
    return {back(a.output), back(a.lse), back(a.weights), back(a.logits), back(a.statistics), back(a.row_statistics)};
  }
  AttentionGradients back(const AttentionGradients& a) {
    return {back(a.dq), back(a.dk), back(a.dv), back(a.dbias), back(a.dsink_logit), back(a.dgates)};
  }

  AttentionOptions there(AttentionOptions options) {
    for (ConstTensorView* view : {&options.keep, &options.bias, &options.alibi, &options.key_lengths,
                                  &options.key_start, &options.query_lengths, &options.first_positions, &options.cu_q,
                                  &options.cu_k, &options.sink_logit, &options.gates}) {
      *view = there(*view);
    }
    return options;
  }
  AttentionWants there(AttentionWants wants) {
    wants.marked_keys = there(wants.marked_keys);
    wants.target_keys = there(wants.target_keys);
    return wants;
  }

  std::vector<Tensor> memory_;
};

// Without its fence the device would prove nothing.
TEST_F(Devices, MemoryIsFenced) {
  const Tensor tensor = Tensor::zeros({4}, DType::f32, device_.allocator());
  EXPECT_DEATH(static_cast<void>(*static_cast<const volatile float*>(tensor.view().data())), "");
  EXPECT_THROW(tensor.as<float>(), Error);
}

TEST_F(Devices, CopiesGoAnywhere) {
  Tensor numbers = Tensor::empty({3, 4, 5}, DType::f32);
  for (int n = 0; n < 60; ++n) numbers.as<float>()[n] = static_cast<float>(n) / 8;
  const ConstTensorView turned = numbers.view().transpose(0, 2);  // [5,4,3]
  const Tensor expected = to_host(cpu_, turned);
  EXPECT_EQ(expected.as<float>()[1], 20.0f / 8);
  EXPECT_TRUE(same_bits("clone", back(clone(device_, turned)), expected));
  // Strided on both sides, and by way of a 16-bit type that holds these numbers exactly.
  Tensor halves = Tensor::empty({3, 4, 5}, DType::f16, device_.allocator());
  copy(device_, turned, halves.view().transpose(0, 2));
  Tensor again = Tensor::zeros({3, 4, 5}, DType::f32);
  copy(device_, halves, again);
  EXPECT_TRUE(same_bits("f16", again, numbers));
  EXPECT_THROW(copy(device_, numbers, halves.view().slice(0, 0, 2)), Error);
  EXPECT_THROW(copy(cpu_, numbers, halves), Error);
}

TEST_F(Devices, RefuseMemoryOfAnother) {
  const Tensor q = Tensor::zeros({1, 1, 2, 4}, DType::f32);
  const Tensor k = clone(device_, q);
  for (Context* context : {&cpu_, &device_}) {
    try {
      attend(*context, q, k, k);
      FAIL() << "memory of two devices in one call";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device) << error.what();
    }
  }
}

TEST(Device, ThatIsNotThereSaysWhy) {
  try {
    const Context context(Device{Device::Kind::cuda, 99});
    FAIL() << "a hundredth GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_GT(std::string(error.what()).size(), std::string("[context] ").size());
  }
}

TEST_F(Devices, AttentionHasTheBitsOfTheCpu) {
  for (const Case& recipe : catalogue()) {
    SCOPED_TRACE(recipe.name);
    const Materialised m = materialise(recipe);
    const Attention expected = attend(cpu_, m.q, m.k, m.v, m.options, m.wants);
    const Attention got = attend(device_, there(m.q), there(m.k), there(m.v), there(m.options), there(m.wants));
    expect_same_bits(expected, back(got));
    if (HasFailure()) return;
    memory_.clear();
  }
}

TEST_F(Devices, GradientsHaveTheBitsOfTheCpu) {
  for (const Case& recipe : gradient_catalogue()) {
    SCOPED_TRACE(recipe.name);
    const Materialised m = materialise(recipe);
    const AttentionGradients expected = attend_backward(cpu_, m.q, m.k, m.v, m.options, m.upstream, m.gradient_wants);
    const UpstreamGradients upstream{there(m.upstream.output), there(m.upstream.lse), there(m.upstream.weights)};
    const AttentionGradients got =
        attend_backward(device_, there(m.q), there(m.k), there(m.v), there(m.options), upstream, m.gradient_wants);
    expect_same_bits(expected, back(got));
    if (HasFailure()) return;
    memory_.clear();
  }
}

// Both values of a length are read where they lie: the device says what the CPU says.
TEST_F(Devices, ValuesAreCheckedWhereTheyLie) {
  const Tensor q = Tensor::zeros({2, 1, 3, 4}, DType::f32);
  const std::int32_t lengths[] = {3, 4};
  const AttentionOptions options{.key_lengths = ConstTensorView(lengths, {2})};
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  const std::string expected = message([&] { attend(cpu_, q, q, q, options); });
  EXPECT_EQ(expected, "[attend] key_lengths[1]: expected 0 to 3, found 4");
  const ConstTensorView x = there(q);
  EXPECT_EQ(message([&] { attend(device_, x, x, x, there(options)); }), expected);
}

TEST_F(Devices, CacheDecodes) {
  constexpr KvCacheSizes kSizes{.batch = 2, .kv_heads = 2, .capacity = 40, .head_dim = 8, .value_dim = 8};
  Case recipe;
  recipe.kv_heads = 2;
  recipe.queries = recipe.keys = 33;
  recipe.head_dim = recipe.value_dim = 8;
  const Materialised m = materialise(recipe);
  const std::int32_t starts[] = {0, 5};
  KvCache here(cpu_, kSizes, DType::f16), elsewhere(device_, kSizes, DType::f16);
  here.set_key_start(cpu_, ConstTensorView(starts, {2}));
  elsewhere.set_key_start(device_, ConstTensorView(starts, {2}));
  const ConstTensorView q = there(m.q), k = there(m.k), v = there(m.v);
  for (std::int64_t begin = 0, end = 3; begin < 33; begin = end, ++end) {
    here.append(cpu_, m.k.slice(2, begin, end), m.v.slice(2, begin, end));
    elsewhere.append(device_, k.slice(2, begin, end), v.slice(2, begin, end));
    const AttentionOptions options{.causal = true};
    expect_same_bits(attend(cpu_, m.q.slice(2, begin, end), here, options),
                     back(attend(device_, q.slice(2, begin, end), elsewhere, options)));
  }
}

// A layer with all that it can have: its own widths, rotary, gates, a sink, dropout, 16-bit parameters too.
TEST_F(Devices, LayerGoesForwardAndBack) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const MultiHeadShape shape{.width = 24, .heads = 4, .kv_heads = 2, .key_width = 20, .value_width = 20};
    const MultiHeadAttention layer(shape, dtype, 5), moved(shape, dtype, 5, device_.allocator());
    Random random("layer");
    std::vector<Tensor> tensors;
    const auto numbers = [&](const Dims& dims, DType type) -> ConstTensorView {
      tensors.push_back(Tensor::empty(dims, type));
      fill_normal(tensors.back(), random, 1);
      return tensors.back();
    };
    const MultiHeadInputs inputs{.query = numbers({2, 9, 24}, dtype), .key = numbers({2, 11, 20}, dtype)};
    MultiHeadOptions options{.output_dropout = {0.1, 3}, .rotary = Rotary{}};
    options.attention.gates = numbers({2, 4}, DType::f32);
    options.attention.sink_logit = numbers({4}, DType::f32);
    options.attention.dropout = {0.1, 4};
    MultiHeadOptions options_there = options;
    options_there.attention = there(options.attention);
    const MultiHeadInputs inputs_there{.query = there(inputs.query), .key = there(inputs.key)};

    const MultiHeadResults expected = layer.forward(cpu_, inputs, options, MultiHeadWants::training());
    const MultiHeadResults got = moved.forward(device_, inputs_there, options_there, MultiHeadWants::training());
    EXPECT_TRUE(same_bits("output", back(got.output), expected.output));
    EXPECT_TRUE(same_bits("heads", back(got.heads), expected.heads));

    const GradientWants wants{.sink_logit = true, .gates = true};
    const ConstTensorView dy = numbers({2, 9, 24}, dtype);
    const MultiHeadGradients d = layer.backward(cpu_, inputs, options, expected, {.output = dy}, wants);
    const MultiHeadGradients d_there =
        moved.backward(device_, inputs_there, options_there, got, {.output = there(dy)}, wants);
    EXPECT_TRUE(same_bits("dquery", back(d_there.dquery), d.dquery));
    EXPECT_TRUE(same_bits("dkey", back(d_there.dkey), d.dkey));
    EXPECT_TRUE(same_bits("dgates", back(d_there.dgates), d.dgates));
    EXPECT_TRUE(same_bits("dsink", back(d_there.dsink_logit), d.dsink_logit));
    EXPECT_TRUE(same_bits("dk_proj", back(d_there.dparameters.k_proj_weight), d.dparameters.k_proj_weight));
    EXPECT_TRUE(same_bits("dbias", back(d_there.dparameters.in_proj_bias), d.dparameters.in_proj_bias));
  }
}

// The packed weights of a layer, and one head of it.
TEST_F(Devices, LayerPacksItsWeights) {
  MultiHeadAttention layer({.width = 24, .heads = 3}, DType::f32, 5, device_.allocator());
  const MultiHeadAttention here({.width = 24, .heads = 3}, DType::f32, 5);
  Tensor x = Tensor::empty({2, 5, 24}, DType::f32);
  Random random("x");
  fill_normal(x, random, 1);
  const Tensor expected = here.forward(cpu_, {.query = x}).output;
  layer.pack(device_);
  EXPECT_TRUE(same_bits("output", back(layer.forward(device_, {.query = there(x)}).output), expected));
  EXPECT_TRUE(
      same_bits("head", back(layer.to_heads()[1].forward(device_, there(x))), here.to_heads()[1].forward(cpu_, x)));
}

}  // namespace
}  // namespace polyhead::test
