// What must hold for any sizes and numbers: attention against itself.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "polyhead/polyhead.h"
#include "support/compare.h"
#include "support/plain.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

struct Sizes {
  std::int64_t B = 1, H = 1, T = 1, S = 1, D = 1;
};

Sizes any_sizes() {
  return {*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 80), *rc::gen::inRange(1, 300),
          *rc::gen::inRange(1, 40)};
}

// q, k, v [B,H,length,D] of a seed.
struct Inputs {
  Sizes sizes;
  Random random{*rc::gen::arbitrary<std::uint64_t>()};
  Tensor q = normal({sizes.B, sizes.H, sizes.T, sizes.D}), k = normal({sizes.B, sizes.H, sizes.S, sizes.D}),
         v = normal({sizes.B, sizes.H, sizes.S, sizes.D});
  Context context{1};

  explicit Inputs(const Sizes& s) : sizes(s) {}
  Inputs() : Inputs(any_sizes()) {}
  Tensor normal(const Dims& shape) {
    Tensor tensor = Tensor::zeros(shape, DType::f32);
    fill_normal(tensor, random);
    return tensor;
  }
  Attention attend(const AttentionOptions& options = {}, const AttentionWants& wants = {}) {
    return polyhead::attend(context, q, k, v, options, wants);
  }
};

std::vector<double> values(const ConstTensorView& view) { return reference::Array<double>(view).values(); }

void expect_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 2e-5) {
  RC_ASSERT(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities too
    RC_ASSERT(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(a[i])));
  }
}

void expect_equal(const ConstTensorView& a, const ConstTensorView& b) { RC_ASSERT(values(a) == values(b)); }

// The rows of `view` along the axis in the order given.
Tensor reordered(const ConstTensorView& view, int axis, const std::vector<std::int64_t>& order) {
  Dims shape = view.shape();
  shape[axis] = static_cast<std::int64_t>(order.size());
  Tensor result = Tensor::zeros(shape, view.dtype());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::vector<double> from = values(view.slice(axis, order[i], order[i] + 1));
    std::size_t n = 0;
    fill_with(result.view().slice(axis, at, at + 1), [&] { return from[n++]; });
  }
  return result;
}

std::vector<std::int64_t> any_order(std::int64_t n, Random& random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  return order;
}

RC_GTEST_PROP(Properties, PermutedHeadsGivePermutedOutputs, ()) {
  Inputs in;
  const auto order = any_order(in.sizes.H, in.random);
  const bool causal = *rc::gen::arbitrary<bool>();
  const AttentionOptions options{.align = Align::bottom_right, .causal = causal};
  const AttentionWants wants{.lse = true, .statistics = StatisticsSet::light};
  const Attention straight = in.attend(options, wants);
  const Attention permuted = polyhead::attend(in.context, reordered(in.q, 1, order), reordered(in.k, 1, order),
                                              reordered(in.v, 1, order), options, wants);
  expect_equal(reordered(straight.output, 1, order), permuted.output);
  expect_equal(reordered(straight.lse, 1, order), permuted.lse);
  expect_equal(reordered(straight.statistics, 1, order), permuted.statistics);
}

RC_GTEST_PROP(Properties, OrderOfKeysDoesNotMatter, ()) {
  Inputs in;
  const auto order = any_order(in.sizes.S, in.random);
  const Attention straight = in.attend({}, {.lse = true});
  const Attention permuted =
      polyhead::attend(in.context, in.q, reordered(in.k, 2, order), reordered(in.v, 2, order), {}, {.lse = true});
  expect_close(values(straight.output), values(permuted.output));
  expect_close(values(straight.lse), values(permuted.lse));
}

RC_GTEST_PROP(Properties, ShiftedLogitsChangeOnlyLse, ()) {
  Inputs in;
  const int shift = *rc::gen::inRange(-50, 50);
  Tensor bias = Tensor::zeros({1}, DType::f32);
  bias.as<float>()[0] = static_cast<float>(shift);
  const AttentionWants wants{.lse = true};
  const Attention plain = in.attend({}, wants), shifted = in.attend({.bias = bias}, wants);
  expect_close(values(plain.output), values(shifted.output));
  std::vector<double> lse = values(plain.lse);
  for (double& x : lse) x += shift;
  expect_close(lse, values(shifted.lse));
}

RC_GTEST_PROP(Properties, SplitBatchGivesTheSameBits, ()) {
  Inputs in;
  const AttentionOptions options{.align = Align::top_left, .causal = *rc::gen::arbitrary<bool>()};
  const Attention whole = in.attend(options);
  for (std::int64_t b = 0; b < in.sizes.B; ++b) {
    const Attention part = polyhead::attend(in.context, in.q.view().slice(0, b, b + 1), in.k.view().slice(0, b, b + 1),
                                            in.v.view().slice(0, b, b + 1), options);
    expect_equal(whole.output.view().slice(0, b, b + 1), part.output);
  }
}

// Chunks of keys merge by their lse: w_c = exp(lse_c - lse), o = sum w_c o_c, H = sum w_c (H_c - ln w_c).
RC_GTEST_PROP(Properties, ChunksOfKeysMergeToTheWhole, ()) {
  Inputs in;
  RC_PRE(in.sizes.S >= 2);
  const std::int64_t cut = *rc::gen::inRange<std::int64_t>(1, in.sizes.S);
  const AttentionOptions options{.align = Align::top_left};
  const AttentionWants wants{.lse = true, .statistics = StatisticsSet::light, .row_statistics = true};
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return polyhead::attend(in.context, in.q, in.k.view().slice(2, begin, end), in.v.view().slice(2, begin, end),
                            options, wants);
  };
  const Attention a = part(0, cut), b = part(cut, in.sizes.S), whole = in.attend(options, wants);
  const auto lse_a = values(a.lse), lse_b = values(b.lse), lse = values(whole.lse);
  const auto out_a = values(a.output), out_b = values(b.output);
  const auto rows_a = values(a.row_statistics), rows_b = values(b.row_statistics), rows = values(whole.row_statistics);
  std::vector<double> out, merged_lse, entropy, expected_entropy;
  for (std::size_t r = 0; r < lse.size(); ++r) {
    const double top = std::max(lse_a[r], lse_b[r]);
    const double total = top + std::log(std::exp(lse_a[r] - top) + std::exp(lse_b[r] - top));
    const double w_a = std::exp(lse_a[r] - total), w_b = std::exp(lse_b[r] - total);
    merged_lse.push_back(total);
    const auto D = static_cast<std::size_t>(in.sizes.D);
    for (std::size_t e = 0; e < D; ++e) out.push_back(w_a * out_a[r * D + e] + w_b * out_b[r * D + e]);
    const std::size_t field = r * kLightStatistics + static_cast<std::size_t>(Statistic::entropy);
    entropy.push_back(w_a * (rows_a[field] - (lse_a[r] - total)) + w_b * (rows_b[field] - (lse_b[r] - total)));
    expected_entropy.push_back(rows[field]);
  }
  expect_close(lse, merged_lse);
  expect_close(values(whole.output), out);
  expect_close(expected_entropy, entropy);
}

// Rows [0, cut) and [cut, T) of a causal pass, each with its own alignment.
RC_GTEST_PROP(Properties, StatisticsOfChunksMergeToThoseOfTheWhole, ()) {
  Sizes sizes = any_sizes();
  sizes.T = sizes.S;
  RC_PRE(sizes.T >= 2);
  Inputs in(sizes);
  const std::int64_t cut = *rc::gen::inRange<std::int64_t>(1, sizes.T);
  const AttentionWants wants{.statistics = StatisticsSet::full};
  const Attention whole = in.attend({.causal = true}, wants);
  Attention first = polyhead::attend(in.context, in.q.view().slice(2, 0, cut), in.k, in.v,
                                     {.align = Align::top_left, .causal = true}, wants);
  const Attention rest = polyhead::attend(in.context, in.q.view().slice(2, cut, sizes.T), in.k, in.v,
                                          {.align = Align::bottom_right, .causal = true}, wants);
  merge_statistics(first.statistics, rest.statistics);
  expect_close(values(whole.statistics), values(first.statistics));
}

RC_GTEST_PROP(Properties, RowStatisticsAddUpToTheSums, ()) {
  Inputs in;
  const AttentionWants wants{.statistics = StatisticsSet::full, .row_statistics = true};
  const Attention got = in.attend({.align = Align::bottom_right, .causal = *rc::gen::arbitrary<bool>()}, wants);
  const auto rows = values(got.row_statistics), sums = values(got.statistics);
  const auto T = static_cast<std::size_t>(in.sizes.T);
  std::vector<double> added(sums.size(), 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t field = i % kFullStatistics, head = i / kFullStatistics / T;
    double& sum = added[head * kFullStatistics + field];
    const bool maximum = field == static_cast<std::size_t>(Statistic::max_logit);
    if (maximum && i / kFullStatistics % T == 0) sum = rows[i];
    sum = maximum ? std::max(sum, rows[i]) : sum + rows[i];
  }
  expect_close(added, sums);
}

RC_GTEST_PROP(Properties, GateZeroIsAZeroedHeadAndTouchesNoOther, ()) {
  Inputs in;
  const std::int64_t out = *rc::gen::inRange<std::int64_t>(0, in.sizes.H);
  Tensor gates = Tensor::zeros({in.sizes.H}, DType::f32);
  for (std::int64_t h = 0; h < in.sizes.H; ++h) gates.as<float>()[h] = h == out ? 0.0f : 1.0f;
  const Attention whole = in.attend(), gated = in.attend({.gates = gates});
  for (std::int64_t h = 0; h < in.sizes.H; ++h) {
    const ConstTensorView head = gated.output.view().slice(1, h, h + 1);
    if (h != out) {
      expect_equal(whole.output.view().slice(1, h, h + 1), head);
    } else {
      for (const double x : values(head)) RC_ASSERT(x == 0);
    }
  }
}

// Two sequences in one packed row, and padded with lengths: the same bits.
RC_GTEST_PROP(Properties, PackedIsPadded, ()) {
  Sizes sizes = any_sizes();
  sizes.B = 2;
  Inputs in(sizes);
  const auto any_length = [](std::int64_t most) { return *rc::gen::inRange<std::int64_t>(0, most + 1); };
  const std::int64_t t0 = any_length(sizes.T), t1 = any_length(sizes.T), s0 = any_length(sizes.S),
                     s1 = any_length(sizes.S);
  const auto i32 = [](std::initializer_list<std::int64_t> list) {
    Tensor tensor = Tensor::zeros({static_cast<std::int64_t>(list.size())}, DType::i32);
    std::transform(list.begin(), list.end(), tensor.as<std::int32_t>(),
                   [](std::int64_t x) { return static_cast<std::int32_t>(x); });
    return tensor;
  };
  const auto joined = [&](const Tensor& tensor, std::int64_t n0, std::int64_t n1) {
    Tensor both = Tensor::zeros({1, sizes.H, n0 + n1, sizes.D}, DType::f32);
    const auto put = [&](std::int64_t b, std::int64_t n, std::int64_t at) {
      const std::vector<double> from = values(tensor.view().slice(0, b, b + 1).slice(2, 0, n));
      std::size_t i = 0;
      fill_with(both.view().slice(2, at, at + n), [&] { return from[i++]; });
    };
    put(0, n0, 0);
    put(1, n1, n0);
    return both;
  };
  AttentionOptions options{.align = Align::bottom_right, .causal = *rc::gen::arbitrary<bool>()};
  options.dropout = {.p = 0.25, .seed = 3};
  const AttentionWants wants{.statistics = StatisticsSet::full};
  AttentionOptions padded = options, packed = options;
  const Tensor key_lengths = i32({s0, s1}), query_lengths = i32({t0, t1}), cu_q = i32({0, t0, t0 + t1}),
               cu_k = i32({0, s0, s0 + s1});
  padded.key_lengths = key_lengths;
  padded.query_lengths = query_lengths;
  packed.cu_q = cu_q;
  packed.cu_k = cu_k;
  const Attention a = in.attend(padded, wants);
  const Attention b =
      polyhead::attend(in.context, joined(in.q, t0, t1), joined(in.k, s0, s1), joined(in.v, s0, s1), packed, wants);
  expect_equal(joined(a.output, t0, t1), b.output);
  expect_equal(a.statistics, b.statistics);
}

// One draw says little of how exact an implementation is: beside narrow heads the largest error of few numbers varies
// by more than twice. The mean over many draws does not.
TEST(Properties, NarrowHeadsAreAsExactAsAPlainImplementation) {
  Context context(1);
  for (const std::int64_t width : {1, 2, 4}) {
    double ours = 0, plain = 0;
    for (int draw = 0; draw < 100; ++draw) {
      Case c;
      c.name = "narrow_" + std::to_string(draw);
      c.queries = c.keys = 24;
      c.head_dim = c.value_dim = width;
      const Materialised m = materialise(c);
      const ExpectedResults expected = expected_results(m);
      const std::vector<double> exact = values(expected.exact.output);
      ours += distance_of(values(attend(context, m.q, m.k, m.v).output), exact).largest;
      plain += distance_of(values(expected.plain.output), exact).largest;
    }
    EXPECT_LT(ours, 1.1 * plain) << "head_dim " << width;
  }
}

}  // namespace
}  // namespace polyhead::test
