// The public calls: the exercises of the teaching texts, the forms a call can take, and what explain says.
#include "polyhead/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/plain.h"

namespace polyhead::test {
namespace {

// 512 wide, 8 heads, n_q != n_k, masks [batch,1,1,n_k] and [batch,1,n_q,n_k]; output and weights; rows sum to 1 within
// 1e-5.
TEST(Attend, CrossAttentionReturnsOutputAndWeights) {
  const std::int64_t batch = 2, n_q = 10, n_k = 14, heads = 8;
  const Tensor q = normal({batch, n_q, 512}, "q", DType::f32), k = normal({batch, n_k, 512}, "k", DType::f32),
               v = normal({batch, n_k, 512}, "v", DType::f32);
  const auto split = [&](const Tensor& x) { return x.view().split(2, heads).transpose(1, 2); };
  Context context;
  for (const Dims& mask : {Dims{batch, 1, 1, n_k}, Dims{batch, 1, n_q, n_k}}) {
    Tensor keep = Tensor::zeros(mask, DType::boolean);
    for (std::int64_t i = 0; i < keep.view().count(); ++i) keep.as<bool>()[i] = i % 3 != 1;
    const Attention result = attend(context, split(q), split(k), split(v), {.keep = keep}, {.weights = true});
    EXPECT_EQ(result.output.shape(), (Dims{batch, heads, n_q, 64}));
    ASSERT_EQ(result.weights.shape(), (Dims{batch, heads, n_q, n_k}));
    const float* weights = result.weights.as<float>();
    for (std::int64_t row = 0; row < batch * heads * n_q; ++row) {
      float sum = 0;
      for (std::int64_t j = 0; j < n_k; ++j) sum += weights[row * n_k + j];
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    const std::int64_t hidden_key = 1;  // of batch 0, first query: keep is false there
    EXPECT_EQ(weights[hidden_key], 0);
  }
}

// Merged heads written straight into [batch, tokens, width]: no transpose.
TEST(Attend, WritesIntoMemoryOfTheCallerInAnyLayout) {
  const Tensor x = normal({2, 9, 3 * 32}, "qkv", DType::f32);
  const auto heads_at = [&](std::int64_t i) {
    return x.view().slice(2, i * 32, (i + 1) * 32).split(2, 4).transpose(1, 2);
  };
  Context context;
  Tensor merged = Tensor::zeros({2, 9, 32}, DType::f32);
  attend_into(context, heads_at(0), heads_at(1), heads_at(2), {.causal = true}, {},
              {.output = merged.view().split(2, 4).transpose(1, 2)});
  const Attention expected = attend(context, heads_at(0), heads_at(1), heads_at(2), {.causal = true});
  EXPECT_EQ(reference::Array<double>(merged.view().split(2, 4).transpose(1, 2)).values(),
            reference::Array<double>(expected.output).values());
}

// Windows wider than any tensor hide nothing, and no sum with them overflows.
TEST(Attend, AWindowMayBeAsWideAsNumbersAre) {
  const Tensor x = normal({1, 2, 9, 8}, "x", DType::f32);
  Context context(1);
  const auto values = [&](const Window& window) {
    const Attention found = attend(context, x, x, x, {.align = Align::top_left, .window = window});
    return reference::Array<double>(found.output).values();
  };
  const std::vector<double> whole = values({});
  for (const std::int64_t reach : {std::int64_t{1} << 31, kUnlimited / 2, kUnlimited - 1}) {
    EXPECT_EQ(values({.left = reach}), whole) << reach;
    EXPECT_EQ(values({.right = reach}), whole) << reach;
    EXPECT_EQ(values({.left = reach, .right = reach}), whole) << reach;
  }
  EXPECT_NE(values({.left = 1}), whole);
  EXPECT_NE(values({.right = 1}), whole);
}

TEST(Attend, NothingIsComputedForNothing) {
  Context context;
  for (const Dims& shape : {Dims{0, 4, 5, 8}, Dims{2, 0, 5, 8}, Dims{2, 4, 0, 8}, Dims{2, 4, 5, 0}}) {
    const Tensor x = Tensor::zeros(shape, DType::f32);
    const Attention result =
        attend(context, x, x, x, {.causal = true}, {.lse = true, .statistics = StatisticsSet::light});
    EXPECT_EQ(result.output.shape(), shape);
  }
}

// Weights of packed sequences are as wide as the longest one, however its offsets lie in memory.
TEST(Attend, WeightsOfPackedSequencesAreAsWideAsTheLongest) {
  const Tensor x = normal({1, 2, 9, 8}, "x", DType::f32);
  const std::vector<std::int32_t> offsets{0, 3, 4, 9};
  Context context(1);
  for (const std::int64_t stride : {1, 3, -1, -2}) {
    Tensor memory = Tensor::zeros({10}, DType::i32);
    const std::int64_t first = stride < 0 ? 9 : 0;
    for (std::int64_t n = 0; n < 4; ++n) {
      memory.as<std::int32_t>()[first + n * stride] = offsets[static_cast<std::size_t>(n)];
    }
    const ConstTensorView cu = memory.view().slice(0, first, 10).as_strided({4}, {stride});
    const Attention found = attend(context, x, x, x, {.cu_q = cu, .cu_k = cu}, {.weights = true});
    EXPECT_EQ(found.weights.shape(), (Dims{1, 2, 9, 5})) << stride;
    EXPECT_GT(found.weights.as<float>()[4 * 5 + 4], 0) << "the first row of the last sequence sees its fifth key";
  }
}

TEST(Explain, NamesThePathAndTheReasons) {
  const Tensor x = normal({1, 2, 5, 8}, "x", DType::f16);
  Context context(1);
  const std::string text = explain(context, x, x, x, {.causal = true}, {.weights = true});
  for (const char* word : {"cpu, fused", "widened", "weights", "GPU"}) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_THROW(explain(context, x, x, x, {.softcap = -1}), Error);
}

// Many chunks: an f64 sum of f32 statistics.
TEST(Statistics, MergeIntoF64) {
  Tensor sum = Tensor::zeros({1, 1, kLightStatistics}, DType::f64),
         more = Tensor::zeros({1, 1, kLightStatistics}, DType::f32);
  for (int f = 0; f < kLightStatistics; ++f) more.as<float>()[f] = 0.1f;
  for (int n = 0; n < 50000; ++n) merge_statistics(sum, more);
  EXPECT_NEAR(sum.as<double>()[static_cast<int>(Statistic::entropy)], 50000 * static_cast<double>(0.1f), 1e-6);
  EXPECT_EQ(sum.as<double>()[static_cast<int>(Statistic::max_logit)], static_cast<double>(0.1f));
}

TEST(Statistics, HaveNames) {
  EXPECT_EQ(name_of(Statistic::rows), "rows");
  EXPECT_EQ(name_of(Statistic::sink_weight), "sink_weight");
  for (int f = 0; f < kFullStatistics; ++f) EXPECT_NE(name_of(static_cast<Statistic>(f)), "?");
}

}  // namespace
}  // namespace polyhead::test
