// The fused backward pass against the oracle: every case of the gradient catalogue on every vector target, the same
// bits for any number of threads, and the corners of its tiling.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "cpu/copies.h"
#include "cpu/targets.h"
#include "kernels/executors.h"
#include "support/bits.h"
#include "support/compare.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

AttentionGradients gradients(Context& context, const Materialised& m, const ForwardResults& forward = {}) {
  return attend_backward(context, m.q, m.k, m.v, m.options, m.upstream, m.gradient_wants, forward);
}

void expect_right_gradients(const Materialised& m) {
  const auto expected = judges(m.name) ? std::optional(expected_gradients(m)) : std::nullopt;
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : targets_for(m.name)) {
    SCOPED_TRACE(target);
    cpu::use_target(target);
    AttentionGradients got = gradients(context, m);
    EXPECT_TRUE(expected ? judge(*expected, views_of(got)) : ::testing::AssertionSuccess());
    // With what the forward pass left behind, the same bits.
    const Attention forward = attend(context, m.q, m.k, m.v, m.options, {.lse = true});
    expect_same_bits(got, gradients(context, m, {forward.output, forward.lse}));
  }
}

class CpuGradients : public ::testing::TestWithParam<Case> {};

TEST_P(CpuGradients, FollowTheRuleOnEveryTarget) { expect_right_gradients(materialise(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Catalogue, CpuGradients, ::testing::ValuesIn(gradient_catalogue()),
                         [](const auto& instance) { return instance.param.name; });
// Of a shard: with the output and lse of more keys, as around a ring.
void expect_right_gradients_of_shard(const Materialised& m) {
  const auto expected = judges(m.name) ? std::optional(expected_gradients(m)) : std::nullopt;
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : targets_for(m.name)) {
    SCOPED_TRACE(target);
    cpu::use_target(target);
    AttentionGradients got = gradients(context, m, m.forward);
    EXPECT_TRUE(expected ? judge(*expected, views_of(got)) : ::testing::AssertionSuccess());
  }
}

class CpuShards : public ::testing::TestWithParam<Case> {};

TEST_P(CpuShards, TakeLseAndOutputAsTheyAreGiven) { expect_right_gradients_of_shard(materialise(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Catalogue, CpuShards, ::testing::ValuesIn(shard_catalogue()),
                         [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(Spoilt, CpuGradients, ::testing::ValuesIn(spoilt_catalogue()),
                         [](const auto& instance) { return instance.param.name; });

// Several blocks of keys and panels of queries, so that blocks wait for each other.
Case large(const std::string& name) {
  Case c;
  c.name = name;
  c.batch = 1;
  c.heads = c.kv_heads = 2;
  c.queries = 190;
  c.keys = 410;
  c.head_dim = c.value_dim = 32;
  c.options.align = Align::bottom_right;
  return c;
}

std::vector<Case> large_cases() {
  Case causal = large("causal"), window = large("window"), first = large("always_first"), drop = large("dropout"),
       grouped = large("grouped"), odd = large("odd_widths"), bias = large("bias"), half = large("half"),
       beside = large("beside_the_output"), narrow = large("top_left_causal"), sink = large("high_logits_and_sink"),
       pairs = large("bf16_causal"), pairs_apart = large("bf16_window");
  causal.options.causal = true;
  window.options.window = {.left = 60, .right = 3};
  first.options.window = {.left = 20, .right = 0, .always_first = 150};
  drop.options.dropout = {.p = 0.25, .seed = 3};
  grouped.heads = 6;
  grouped.gates = Gates::per_sequence;
  odd.head_dim = 19;
  odd.value_dim = 37;
  odd.sink_logit = true;
  bias.bias = Dims{1, 190, 1};
  bias.options.softcap = 5;
  half.dtype = DType::f16;
  half.options.causal = true;
  pairs.dtype = pairs_apart.dtype = DType::bf16;
  pairs.options.causal = true;
  pairs.head_dim = 19;
  pairs_apart.options.window = {.left = 61, .right = 3};  // panels see blocks from the second key of a pair on
  beside.dlse = beside.dweights = true;
  beside.options.causal = true;
  narrow.options.causal = true;
  narrow.options.align = Align::top_left;
  sink.sink_logit = true;
  sink.options.scale = 6;
  return {large("plain"), causal, window, first,  drop, grouped, odd,
          bias,           half,   beside, narrow, sink, pairs,   pairs_apart};
}

class CpuLargeGradients : public ::testing::TestWithParam<Case> {};

TEST_P(CpuLargeGradients, FollowTheRuleOnEveryTarget) { expect_right_gradients(materialise(GetParam())); }

TEST_P(CpuLargeGradients, AreTheSameBitsForAnyNumberOfThreads) {
  Case c = GetParam();
  c.queries *= 3;
  if (c.bias) c.bias = Dims{1, c.queries, 1};
  const Materialised m = materialise(c);
  Context one(1);
  const AttentionGradients expected = gradients(one, m);
  for (int threads = 2; threads <= 8; threads += kSanitized ? 3 : 1) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    Context context(threads);
    for (int repeat = 0; repeat < (kSanitized ? 1 : 3); ++repeat) expect_same_bits(expected, gradients(context, m));
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, CpuLargeGradients, ::testing::ValuesIn(large_cases()),
                         [](const auto& instance) { return instance.param.name; });

// So few heads of so many keys that dq is summed in several copies: in three, and in two where there are 1,100 keys or
// fewer.
std::vector<Case> cases_of_few_heads() {
  std::vector<Case> cases = large_cases();
  for (Case& c : cases) {
    c.heads /= c.kv_heads;
    c.kv_heads = 1;
    c.queries = 70;
    c.keys = 1700;
    if (c.bias) c.bias = Dims{1, c.queries, 1};
  }
  Case lost = large("rows_before_the_keys"), closed = large("closed_gate"), packed = large("packed");
  lost.queries = 1130;
  lost.keys = 1030;
  lost.options.causal = lost.sink_logit = true;
  closed.keys = 1100;
  closed.gates = Gates::per_head;
  closed.closed_nan = true;
  packed.keys = 3500;
  packed.heads = packed.kv_heads = 1;
  packed.packed = packed.options.causal = true;
  Case wide = large("f64");
  wide.keys = 1100;
  wide.dtype = DType::f64;
  wide.options.causal = true;
  for (const Case& c : {lost, closed, packed, wide}) cases.push_back(c);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Copies, CpuLargeGradients, ::testing::ValuesIn(cases_of_few_heads()),
                         [](const auto& instance) { return instance.param.name; });

TEST(CpuCopiesOfDq, AreForFewHeadsOfManyBlocks) {
  struct Sizes {
    std::int64_t heads, blocks, numbers, copies;
  };
  for (const auto& [heads, blocks, numbers, copies] : {Sizes{1, 64, 1 << 19, 16},
                                                       {1, 1000, 1 << 19, 16},
                                                       {1, 14, 70 * 32, 3},
                                                       {1, 8, 1 << 16, 2},
                                                       {1, 7, 1 << 16, 1},
                                                       {3, 64, 3 << 19, 5},
                                                       {8, 64, 8 << 19, 2},
                                                       {9, 64, 9 << 19, 1},
                                                       {1, 64, 1 << 24, 4},
                                                       {1, 64, 1 << 27, 1},
                                                       {0, 1, 0, 1}}) {
    EXPECT_EQ(cpu::copies_of_dq(heads, blocks, numbers), copies)
        << heads << " heads, " << blocks << " blocks, " << numbers << " numbers";
  }
}

// Long sums, of primes of terms that no tile divides, and the widest heads, with every option and all kinds of grouped
// heads; small beside that, for the oracle is slow.
std::vector<Case> long_cases() {
  struct Sizes {
    std::int64_t queries, keys, head_dim, heads, kv_heads;
  };
  const auto make = [](const char* name, const Sizes& sizes) {
    Case c = large(name);
    c.queries = sizes.queries;
    c.keys = sizes.keys;
    c.head_dim = c.value_dim = sizes.head_dim;
    c.heads = sizes.heads;
    c.kv_heads = sizes.kv_heads;
    return c;
  };
  Case causal = make("long_causal", {11, 1021, 256, 4, 1}), bias = make("long_bias_softcap", {7, 1013, 256, 4, 2}),
       window = make("long_window_sink", {7, 1009, 224, 6, 3}), drop = make("long_dropout_alibi", {7, 997, 256, 2, 2}),
       gates = make("tall_gates", {1019, 7, 256, 4, 1}), keep = make("tall_keep", {521, 13, 256, 6, 2});
  causal.options.causal = true;
  bias.bias = Dims{4, 7, 1013};
  bias.options.softcap = 3;
  window.options.window = {.left = 991, .right = 0, .always_first = 3};
  window.sink_logit = true;
  drop.options.dropout = {.p = 0.1, .seed = 5};
  drop.alibi = true;
  gates.gates = Gates::per_head;
  keep.keep = Dims{521, 13};
  return {causal, bias, window, drop, gates, keep};
}

// The same as shards: with panels of several blocks, and dq in several copies.
std::vector<Case> large_shards() {
  std::vector<Case> cases = large_cases();
  for (Case c : cases_of_few_heads()) {
    c.name = "few_heads_" + c.name;
    cases.push_back(c);
  }
  for (Case& c : cases) {
    c.shard = true;
    c.dweights = false;
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Blocks, CpuShards, ::testing::ValuesIn(large_shards()),
                         [](const auto& instance) { return instance.param.name; });

class CpuLongGradients : public ::testing::TestWithParam<Case> {};

TEST_P(CpuLongGradients, FollowTheRuleOverSeeds) {
  for (int seed = 0; seed < (kSanitized ? 1 : 3); ++seed) {
    Case c = GetParam();
    c.name += "_" + std::to_string(seed);
    SCOPED_TRACE(c.name);
    expect_right_gradients(materialise(c));
  }
}

INSTANTIATE_TEST_SUITE_P(Sums, CpuLongGradients, ::testing::ValuesIn(long_cases()),
                         [](const auto& instance) { return instance.param.name; });

// dk or dv [1,G,S,D] of the plain implementation over a few rows of one head at a time, the parts added up in double.
void sum_in_blocks(const Materialised& m, const TensorView& dk, const TensorView& dv) {
  constexpr std::int64_t kRows = 32;
  reference::Array<double> sums[] = {{dk.shape(), 0}, {dv.shape(), 0}};
  const std::int64_t heads = m.q.shape(1), rows = m.q.shape(2), shared = heads / m.k.shape(1);
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t g = h / shared;
    for (std::int64_t row = 0; row < rows; row += kRows) {
      const auto part_of = [&](const auto& x) {
        return x.slice(1, h, h + 1).slice(2, row, std::min(row + kRows, rows));
      };
      Materialised part;
      part.q = part_of(m.q);
      part.k = m.k.slice(1, g, g + 1);
      part.v = m.v.slice(1, g, g + 1);
      part.options = m.options;
      part.upstream.output = part_of(m.upstream.output);
      const ExpectedGradients expected = expected_gradients(part);
      const Tensor* of_part[] = {&expected.plain.dk, &expected.plain.dv};
      for (int n = 0; n < 2; ++n) {
        const reference::Array<double> more(of_part[n]->view());
        double* to = sums[n].at(0, g);
        for (const double x : more.values()) *to++ += x;
      }
    }
  }
  sums[0].store_to(dk);
  sums[1].store_to(dv);
}

// Sums over thousands of rows are as exact as sums of short ones, for one head of keys for all and for several.
TEST(CpuGradientSums, DoNotGrowTheirErrorWithTheirLength) {
  if (kSanitized) GTEST_SKIP() << "it is about numbers";
  struct Sizes {
    const char* name;
    std::int64_t kv_heads, queries, head_dim;
    double softcap;
  };
  for (const Sizes& sizes : {Sizes{"one", 1, 1023, 5, 0}, Sizes{"wide", 1, 509, 256, 0}, Sizes{"two", 2, 1023, 32, 0},
                             Sizes{"capped", 3, 1023, 31, 2}}) {
    SCOPED_TRACE(sizes.name);
    Case c = large(sizes.name);
    c.heads = 6;
    c.kv_heads = sizes.kv_heads;
    c.queries = sizes.queries;
    c.keys = 5;
    c.head_dim = c.value_dim = sizes.head_dim;
    c.options.softcap = sizes.softcap;
    const Materialised m = materialise(c);
    const ExpectedGradients expected = expected_gradients(m);
    Tensor dk = Tensor::zeros(m.k.shape(), DType::f32), dv = Tensor::zeros(m.v.shape(), DType::f32);
    sum_in_blocks(m, dk, dv);
    const RestoreTarget restore;
    Context context(1);
    for (const std::string& target : targets_for(sizes.name)) {
      cpu::use_target(target);
      const AttentionGradients got = gradients(context, m);
      EXPECT_TRUE(near_enough("dq", got.dq, expected.exact.dq, expected.plain.dq)) << target;
      EXPECT_TRUE(near_enough("dk", got.dk, expected.exact.dk, dk)) << target;
      EXPECT_TRUE(near_enough("dv", got.dv, expected.exact.dv, dv)) << target;
    }
  }
}

// The largest error of a gradient relative to its largest element, squared and summed over draws.
struct Errors {
  double ours = 0, plain = 0;

  void add(const Tensor& got, const Tensor& exact, const Tensor& yardstick) {
    const reference::Array<double> g(got.view()), e(exact.view()), p(yardstick.view());
    double size = 0;
    for (const double x : e.values()) size = std::max(size, std::abs(x));
    const Distance of_ours = distance_of(g.values(), e.values()), of_plain = distance_of(p.values(), e.values());
    ASSERT_TRUE(of_ours.misplaced < 0 && of_plain.misplaced < 0);
    ours += std::pow(of_ours.largest / size, 2);
    plain += std::pow(of_plain.largest / size, 2);
  }
};

// Logits as q and k of variance 16 and 64 have them (the products grow by as much), and beyond a cap of 50. Where they
// are so large, the rounding of a few of them decides the largest error of ours and of the yardstick alike, so a single
// draw says little about their ratio: the rule is for all of them together.
TEST(CpuGradientsOfLargeLogits, FollowTheRuleOverManyDraws) {
  if (kSanitized) GTEST_SKIP() << "it is about numbers";
  const RestoreTarget restore;
  for (const auto& [variance, softcap] : {std::pair{16, 0.0}, {64, 0.0}, {16, 50.0}, {64, 50.0}}) {
    std::map<std::string, Errors> errors;
    for (int draw = 0; draw < 8; ++draw) {
      Case c = large("variance_" + std::to_string(variance) + "_" + std::to_string(draw));
      c.queries = 131;
      c.keys = 203;
      c.heads = draw % 2 == 0 ? 2 : 6;
      c.head_dim = 33 + 6 * draw;
      c.options.scale = variance / std::sqrt(static_cast<double>(c.head_dim));
      c.options.softcap = softcap;
      c.options.causal = draw % 3 == 0;
      c.sink_logit = draw % 3 == 1;
      c.gates = draw % 4 == 2 ? Gates::per_head : Gates::none;
      const Materialised m = materialise(c);
      const ExpectedGradients expected = expected_gradients(m);
      Context context(1);
      for (const std::string& target : targets_for(c.name)) {
        cpu::use_target(target);
        const AttentionGradients got = gradients(context, m);
        errors[target + " dq"].add(got.dq, expected.exact.dq, expected.plain.dq);
        errors[target + " dk"].add(got.dk, expected.exact.dk, expected.plain.dk);
        errors[target + " dv"].add(got.dv, expected.exact.dv, expected.plain.dv);
      }
    }
    for (const auto& [what, sums] : errors) {
      EXPECT_LE(std::sqrt(sums.ours), 2 * std::sqrt(sums.plain))
          << what << ", variance " << variance << ", softcap " << softcap;
    }
  }
}

// A sink takes part in the sum of a row's weights once, however many copies dq has.
TEST(CpuGradientsOfLargeLogits, CopiesShareASink) {
  Case c = large("copies_share_a_sink");
  c.heads = c.kv_heads = 1;
  c.queries = 40;
  c.keys = 1700;
  c.options.scale = 1;
  c.sink_logit = true;
  const Materialised m = materialise(c);
  fill_with(m.sink_logit, [] { return 22.0; });
  expect_right_gradients(m);
}

// Beside a large lse its rounding is an error that all weights of a row share, unless dq is divided by their sum.
// Values that follow the keys make the terms of dq agree, so that all other errors average out.
TEST(CpuGradientsOfLargeLogits, SumsOfCopiesAreDividedByTheirWeights) {
  Case c = large("copies_far_from_zero");
  c.heads = c.kv_heads = 1;
  c.queries = 40;
  c.keys = 1100;
  c.bias = Dims{1, 1, 1};
  const Materialised m = materialise(c);
  fill_with(m.bias, [] { return 700.0; });
  std::memcpy(m.v.data(), m.k.data(), static_cast<std::size_t>(m.k.count()) * sizeof(float));
  expect_right_gradients(m);
}

// A key whose weight rounds to 1 beside a large lse is not alone: what the others weigh together comes back to it.
TEST(CpuGradientsOfLargeLogits, APeakIsNotALoneKey) {
  Case c = large("variance_64_0");
  c.queries = 131;
  c.keys = 203;
  c.head_dim = 33;
  c.options.scale = 64 / std::sqrt(33.0);
  expect_right_gradients(materialise(c));
}

// A row that sees one key sends nothing back to q and k, in all rows alike, whatever gate and dropout are.
TEST(CpuGradientsOfLoneKeys, AreZero) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    Case c = large("lone");
    c.dtype = dtype;
    c.queries = c.keys = 300;
    c.options.window = {.left = 0, .right = 0};
    c.options.dropout = {.p = 0.3, .seed = 4};
    c.gates = Gates::per_head;
    const Materialised m = materialise(c);
    Context context(1);
    const AttentionGradients got = gradients(context, m);
    for (const Tensor* gradient : {&got.dq, &got.dk}) {
      const reference::Array<double> numbers(gradient->view());
      for (const double x : numbers.values()) ASSERT_EQ(x, 0);
    }
  }
}

// Room for [B,H,T,D] with gaps between rows and heads, filled with NaN: what is not written shows, and so does what is
// written beside.
struct Gappy {
  Tensor memory;
  TensorView view;

  Gappy(const Dims& s, DType dtype) : memory(Tensor::empty({s[0], s[2], s[1], s[3] + 3}, dtype)) {
    fill_with(memory.view(), [] { return std::nan(""); });
    view = memory.view().transpose(1, 2).slice(3, 0, s[3]);
  }
  // The elements behind every row are still NaN.
  bool untouched() const {
    const reference::Array<double> all(memory.view());
    const std::int64_t columns = memory.shape()[3];
    for (std::int64_t n = 0; n < count_of(memory.shape()); ++n) {
      if (n % columns >= columns - 3 && !std::isnan(all.values()[static_cast<std::size_t>(n)])) return false;
    }
    return true;
  }
};

TEST(CpuGradientsInto, MemoryOfAnyLayout) {
  for (Case c : large_cases()) {
    SCOPED_TRACE(c.name);
    const Materialised m = materialise(c);
    Context context(2);
    const AttentionGradients expected = gradients(context, m);
    Gappy dq(m.q.shape(), c.dtype), dk(m.k.shape(), c.dtype), dv(m.v.shape(), c.dtype);
    AttentionGradients rest = make_gradients(m);
    attend_backward_into(context, m.q, m.k, m.v, m.options, m.upstream, m.gradient_wants, {},
                         {dq.view, dk.view, dv.view, rest.dbias, rest.dsink_logit, rest.dgates});
    const auto same = [](const Gappy& got, const Tensor& wanted) {
      return reference::Array<double>(got.view).values() == reference::Array<double>(wanted.view()).values();
    };
    EXPECT_TRUE(same(dq, expected.dq) && dq.untouched());
    EXPECT_TRUE(same(dk, expected.dk) && dk.untouched());
    EXPECT_TRUE(same(dv, expected.dv) && dv.untouched());
    EXPECT_TRUE(same_bits("dgates", rest.dgates, expected.dgates));
    EXPECT_TRUE(same_bits("dbias", rest.dbias, expected.dbias));
  }
}

// dgate is what the output changes by when the gate does, for gates of 0 as for others.
TEST(CpuGateGradient, IsTheFiniteDifferenceOfTheGate) {
  Case c = large("gates");
  c.dtype = DType::f64;
  c.gates = Gates::per_sequence;
  const Materialised m = materialise(c);
  Context context(2);
  const AttentionGradients got = gradients(context, m);
  const auto value = [&] {
    const Attention result = attend(context, m.q, m.k, m.v, m.options);
    const reference::Array<double> o(result.output.view()), dout(m.upstream.output);
    double sum = 0;
    for (std::size_t n = 0; n < o.values().size(); ++n) sum += o.values()[n] * dout.values()[n];
    return sum;
  };
  for (std::int64_t h = 0; h < c.heads; ++h) {
    double& gate = static_cast<double*>(m.gates.data())[h];
    const double at = gate;
    gate = at + 0.5;
    const double above = value();
    gate = at - 0.5;
    const double below = value();
    gate = at;
    EXPECT_NEAR(got.dgates.as<double>()[h], above - below, 1e-9) << "head " << h << ", gate " << at;
  }
}

}  // namespace
}  // namespace polyhead::test
