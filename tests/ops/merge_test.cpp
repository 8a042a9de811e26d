// Results of shards of the keys, merged, against the call with all keys by the rule; and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/bits.h"
#include "support/compare.h"
#include "support/plain.h"
#include "support/shards.h"

namespace polyhead::test {
namespace {

// Cases that the arguments of a shard can say: not packed, keys from the first on.
std::vector<Case> cases_in_shards() {
  std::vector<Case> all = catalogue();
  std::erase_if(all, [](const Case& c) { return c.packed || c.key_start; });
  for (std::size_t n = 0; n < all.size(); ++n) {
    AttentionWants& wants = all[n].wants;
    wants.weights = wants.weights_f32 = false;
    wants.weight_heads.clear();
    wants.weight_rows.clear();
    wants.logits = LogitStage::none;
    if (n % 5 == 0 && wants.statistics == StatisticsSet::full) wants.statistics = StatisticsSet::light;
  }
  // Of pairs of options, those with a mask that shards cut in two, and those with the sink, which one shard has.
  std::erase_if(all, [](const Case& c) {
    const bool pair = c.name.find("_and_") != c.name.npos;
    return pair && !c.name.starts_with("causal_and_") && c.name.find("sink") == c.name.npos;
  });
  std::erase_if(all, [](const Case& c) { return !judges(c.name); });
  return all;
}

// One to five shards: of everything, of halves, with empty ones at the ends and in the middle, of one key, and uneven.
std::vector<std::vector<std::int64_t>> cuts_of(std::int64_t keys) {
  return {{},
          {keys / 2},
          {0, keys / 3},
          {keys / 4, keys / 4, keys - keys / 8},
          {keys / 5, keys / 2, std::max<std::int64_t>(keys - 1, 0), keys}};
}

class MergedAttention : public ::testing::TestWithParam<Case> {};

TEST_P(MergedAttention, IsThatOfAllKeys) {
  const Materialised m = materialise(GetParam());
  const ExpectedResults expected = expected_results(m);
  Context context(1);
  for (const std::vector<std::int64_t>& cuts : cuts_of(m.k.shape(2))) {
    SCOPED_TRACE(std::to_string(cuts.size() + 1) + " shards");
    std::vector<Attention> results;
    std::vector<AttentionPart> parts;
    std::vector<Shard> shards = shards_of(m, cuts);
    for (Shard& shard : shards) {
      shard.wants.lse = true;
      shard.wants.row_statistics = shard.wants.statistics != StatisticsSet::none;
      results.push_back(attend(context, m.q, shard.k, shard.v, shard.options, shard.wants));
    }
    for (const Attention& r : results) parts.push_back({r.output, r.lse, r.row_statistics});
    Attention merged = make_results(m);
    merge_attention(parts, views_of(merged));
    if (expected.exact.statistics.present()) {
      expect_nothing_unknown(merged.statistics, expected.exact.statistics);
    }
    if (expected.exact.row_statistics.present()) {
      expect_nothing_unknown(merged.row_statistics, expected.exact.row_statistics);
    }
    EXPECT_TRUE(judge(expected, views_of(merged)));
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, MergedAttention, ::testing::ValuesIn(cases_in_shards()),
                         [](const auto& instance) { return instance.param.name; });

// Halves of the keys in f32, of which 16 bits are made once; and a merge of merges in f64, which rounds nothing
// between.
TEST(MergeAttention, RoundsOnce) {
  Case c;
  c.name = "rounds_once";
  c.storage = DType::bf16;  // f32 queries and sums over keys and values of 16 bits
  const Materialised m = materialise(c);
  Context context(1);
  std::vector<Attention> results;
  std::vector<AttentionPart> parts;
  std::vector<Shard> shards = shards_of(m, {30, 70, 71});
  for (const Shard& shard : shards) {
    results.push_back(attend(context, m.q, shard.k, shard.v, shard.options, {.lse = true}));
  }
  for (const Attention& r : results) parts.push_back({r.output, r.lse, {}});
  const auto merged = [](std::span<const AttentionPart> of, DType dtype, DType numbers) {
    Attention made;
    made.output = Tensor::empty(of[0].output.shape(), dtype);
    made.lse = Tensor::empty(of[0].lse.shape(), numbers);
    merge_attention(of, views_of(made));
    return made;
  };
  const Attention at_once = merged(parts, DType::bf16, DType::f32), wide = merged(parts, DType::f32, DType::f32);
  const Attention first = merged(std::span(parts).first(2), DType::f64, DType::f64),
                  rest = merged(std::span(parts).subspan(2), DType::f64, DType::f64);
  const AttentionPart halves[] = {{first.output, first.lse, {}}, {rest.output, rest.lse, {}}};
  EXPECT_TRUE(same_bits("output", merged(halves, DType::bf16, DType::f32).output, at_once.output));
  EXPECT_TRUE(same_bits("lse", merged(halves, DType::bf16, DType::f32).lse, at_once.lse));
  Tensor rounded = Tensor::empty(wide.output.shape(), DType::bf16);
  copy(context, wide.output, rounded);
  EXPECT_TRUE(same_bits("output", rounded, at_once.output));
}

// NaN that a row sees in one shard is the row's; a part without weight is not read.
TEST(MergeAttention, ReadsWhatHasWeight) {
  const double none = -std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor outputs[] = {Tensor::empty({1, 1, 3, 1}, DType::f64), Tensor::empty({1, 1, 3, 1}, DType::f64)};
  const Tensor lses[] = {Tensor::empty({1, 1, 3}, DType::f64), Tensor::empty({1, 1, 3}, DType::f64)};
  const auto fill = [](const Tensor& tensor, std::initializer_list<double> numbers) {
    std::copy(numbers.begin(), numbers.end(), const_cast<Tensor&>(tensor).as<double>());
  };
  fill(outputs[0], {nan, 2, nan});
  fill(lses[0], {none, 1, none});
  fill(outputs[1], {3, 5, nan});
  fill(lses[1], {0.5, nan, none});
  const AttentionPart parts[] = {{outputs[0], lses[0], {}}, {outputs[1], lses[1], {}}};
  Tensor output = Tensor::empty({1, 1, 3, 1}, DType::f64), lse = Tensor::empty({1, 1, 3}, DType::f64);
  merge_attention(parts, {.output = output, .lse = lse});
  EXPECT_EQ(output.as<double>()[0], 3);
  EXPECT_EQ(lse.as<double>()[0], 0.5);
  EXPECT_TRUE(std::isnan(output.as<double>()[1]) && std::isnan(lse.as<double>()[1]));
  EXPECT_EQ(output.as<double>()[2], 0);
  EXPECT_EQ(lse.as<double>()[2], none);
}

// A row that sees nothing in any shard but the sink of another one: its lse is finite, and NaN in its query must not
// reach the keys.
TEST(MergedGradients, OfARowThatSeesNothingAreNothing) {
  constexpr std::int64_t T = 40, S = 150, D = 8;
  Tensor q = Tensor::zeros({1, 1, T, D}, DType::f32), k = Tensor::zeros({1, 1, S, D}, DType::f32),
         keep = Tensor::zeros({T, 1}, DType::boolean), output = Tensor::zeros({1, 1, T, D}, DType::f32),
         lse = Tensor::zeros({1, 1, T}, DType::f32), doutput = Tensor::zeros({1, 1, T, D}, DType::f32);
  for (Tensor* x : {&q, &k, &output, &doutput}) {
    for (std::int64_t n = 0; n < x->view().count(); ++n) x->as<float>()[n] = static_cast<float>(n * 7 % 11) / 11;
  }
  std::fill_n(lse.as<float>(), T, 6.0F);
  std::fill_n(keep.as<bool>(), T, true);
  keep.as<bool>()[3] = false;
  std::fill_n(q.as<float>() + 3 * D, D, std::numeric_limits<float>::quiet_NaN());
  std::fill_n(output.as<float>() + 3 * D, D, 0.0F);
  Context context(1);
  const AttentionGradients got = attend_backward(context, q, k, k, {.keep = keep}, {.output = doutput}, {},
                                                 {.output = output, .lse = lse, .merged = true});
  for (const Tensor* x : {&got.dq, &got.dk, &got.dv}) {
    for (std::int64_t n = 0; n < x->view().count(); ++n) ASSERT_TRUE(std::isfinite(x->as<float>()[n]));
  }
  for (std::int64_t c = 0; c < D; ++c) EXPECT_EQ(got.dq.as<float>()[3 * D + c], 0);
  EXPECT_NE(got.dk.as<float>()[0], 0);
}

TEST(MergeAttention, RefusesWhatDoesNotFit) {
  Tensor output = Tensor::zeros({1, 2, 3, 4}, DType::f32), lse = Tensor::zeros({1, 2, 3}, DType::f32),
         rows = Tensor::zeros({1, 2, 3, kLightStatistics}, DType::f32), to = Tensor::zeros({1, 2, 3, 4}, DType::f32),
         short_lse = Tensor::zeros({1, 2, 2}, DType::f32), sums = Tensor::zeros({1, 2, kLightStatistics}, DType::f32),
         whole = Tensor::zeros({1, 2, 3}, DType::i32);
  const auto message = [](const AttentionPart& part, const AttentionOutputs& into) -> std::string {
    try {
      merge_attention(std::span(&part, 1), into);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({output, lse, {}}, {.output = to}), "");
  EXPECT_NE(message({output, short_lse, {}}, {.output = to}).find("part lse"), std::string::npos);
  EXPECT_NE(message({output, whole, {}}, {.output = to}).find("part lse"), std::string::npos);
  EXPECT_NE(message({output, {}, {}}, {.output = to}).find("part lse"), std::string::npos);
  EXPECT_NE(message({output, lse, {}}, {.output = to, .weights = rows}).find("not merged"), std::string::npos);
  EXPECT_NE(message({output, lse, {}}, {.output = to, .statistics = sums}).find("part row_statistics"),
            std::string::npos);
  EXPECT_NE(message({output, lse, rows}, {.output = to, .statistics = rows}).find("statistics"), std::string::npos);
  EXPECT_EQ(message({output, lse, rows}, {.output = to, .statistics = sums}), "");
  EXPECT_NE(message({output, lse, {}}, {.output = output}).find("output"), std::string::npos);
  EXPECT_THROW(merge_attention({}, {.output = to}), Error);
}

}  // namespace
}  // namespace polyhead::test
