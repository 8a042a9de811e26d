// The oracle against numbers worked out by hand.
#include "reference/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/philox.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

constexpr double kTiny = 1e-14;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor numbers(const Dims& shape, const std::vector<double>& values, DType dtype = DType::f64) {
  Tensor tensor = Tensor::empty(shape, dtype);
  EXPECT_EQ(static_cast<std::size_t>(count_of(shape)), values.size());
  std::size_t n = 0;
  fill_with(tensor.view(), [&] { return values[n++]; });
  return tensor;
}

std::vector<double> values_of(const ConstTensorView& tensor) { return reference::Array<double>(tensor).values(); }

void expect_near(const ConstTensorView& got, const std::vector<double>& expected, double allowed = kTiny) {
  const std::vector<double> values = values_of(got);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (std::isinf(expected[n])) {
      EXPECT_EQ(values[n], expected[n]) << "element " << n;
    } else {
      EXPECT_NEAR(values[n], expected[n], allowed) << "element " << n;
    }
  }
}

// A call under construction. By default every logit is 0, so that weights are equal among the visible keys.
struct Call {
  Call(std::int64_t b, std::int64_t h, std::int64_t g, std::int64_t t, std::int64_t s)
      : q(Tensor::zeros({b, h, t, 1}, DType::f64)),
        k(Tensor::zeros({b, g, s, 1}, DType::f64)),
        v(Tensor::zeros({b, g, s, 1}, DType::f64)) {
    wants.lse = wants.weights = wants.row_statistics = true;
    wants.statistics = StatisticsSet::full;
  }

  Attention run() {
    Materialised m;
    m.q = q;
    m.k = k;
    m.v = v;
    m.options = options;
    m.wants = wants;
    Attention results = make_results(m);
    reference::attend(q, k, v, options, wants, views_of(results));
    return results;
  }

  // Rows of head 0 of sequence 0, "x" for a key with weight: "x../xx.".
  std::string pattern() {
    const Attention results = run();
    const std::int64_t s = results.weights.shape()[3];
    std::string text;
    for (std::int64_t n = 0; n < results.weights.shape()[2] * s; ++n) {
      if (n > 0 && n % s == 0) text += '/';
      text += results.weights.as<double>()[n] > 0 ? 'x' : '.';
    }
    return text;
  }

  Tensor q, k, v;
  AttentionOptions options;
  AttentionWants wants;
};

double field(const ConstTensorView& row, Statistic statistic, int slot = 0) {
  return row.as<double>()[static_cast<int>(statistic) + slot];
}

// "it" attends with two heads that share the values of animal, road, because, was and tired.
TEST(Reference, TwoCrewsReadOneSentence) {
  Call call(1, 2, 1, 1, 5);
  const std::vector<double> first{.70, .05, .10, .05, .10}, second{.20, .05, .05, .15, .55};
  // With logits ln w the weights are w: q picks one of two key columns.
  call.q = numbers({1, 2, 1, 2}, {1, 0, 0, 1});
  std::vector<double> logits;
  for (std::size_t j = 0; j < 5; ++j) {
    logits.push_back(std::log(first[j]));
    logits.push_back(std::log(second[j]));
  }
  call.k = numbers({1, 1, 5, 2}, logits);
  call.v = numbers({1, 1, 5, 4}, {.8, .1, 0, .2, .1, .7, .1, 0, .2, .2, .6, .1, .1, .1, .2, .8, .3, .6, .1, .2});
  call.options.scale = 1;
  const Attention results = call.run();
  expect_near(results.weights, {.70, .05, .10, .05, .10, .20, .05, .05, .15, .55});
  expect_near(results.output, {.620, .190, .085, .210, .355, .410, .120, .275});

  // Knocking one head out leaves the other as it was.
  const Tensor gates = numbers({2}, {0, 1});
  call.options.gates = gates;
  expect_near(call.run().output, {0, 0, 0, 0, .355, .410, .120, .275});
}

Call quarter_and_three() {
  Call call(1, 1, 1, 1, 2);
  call.q = numbers({1, 1, 1, 1}, {1});
  call.k = numbers({1, 1, 2, 1}, {0, std::log(3)});
  call.v = numbers({1, 1, 2, 1}, {4, 8});
  return call;
}

TEST(Reference, SoftmaxByHand) {
  const Attention results = quarter_and_three().run();
  expect_near(results.weights, {.25, .75});
  expect_near(results.lse, {std::log(4)});
  expect_near(results.output, {7});
}

TEST(Reference, ScaleDefaultsToTheRootOfTheHeadDim) {
  Call call(1, 1, 1, 1, 2);
  call.q = numbers({1, 1, 1, 4}, {1, 1, 1, 1});
  call.k = numbers({1, 1, 2, 4}, {0, 0, 0, 0, 1, 2, 3, 4});
  expect_near(call.run().lse, {std::log(1 + std::exp(5.0))});
}

TEST(Reference, SinkTakesItsShare) {
  Call call = quarter_and_three();
  const Tensor sink = numbers({1}, {std::log(4)});
  call.options.sink_logit = sink;
  const Attention results = call.run();
  expect_near(results.weights, {.125, .375});
  expect_near(results.lse, {std::log(8)});
  expect_near(results.output, {3.5});
  const double entropy = .125 * std::log(8) + .375 * std::log(8 / 3.0) + .5 * std::log(2);
  EXPECT_NEAR(field(results.statistics, Statistic::entropy), entropy, kTiny);
  EXPECT_NEAR(field(results.statistics, Statistic::normalised_entropy), entropy / std::log(3), kTiny);
  EXPECT_NEAR(field(results.statistics, Statistic::sink_weight), .5, kTiny);
  EXPECT_NEAR(field(results.statistics, Statistic::max_weight), .375, kTiny);
}

TEST(Reference, TransformsComeInTheirOrder) {
  Call call(1, 1, 1, 1, 1);
  call.q = numbers({1, 1, 1, 1}, {6});
  call.k = numbers({1, 1, 1, 1}, {2});
  const Tensor bias = numbers({1}, {0.25}), slopes = numbers({1}, {0.5});
  call.options.scale = 0.5;
  call.options.softcap = 4;
  call.options.bias = bias;
  call.options.alibi = slopes;
  call.options.align = Align::bottom_right;
  expect_near(call.run().lse, {4 * std::tanh(1.5) + 0.25});
  // Two more keys, hidden by their bias, move the query to position 2: |2 - 0| slopes are taken off.
  call.k = numbers({1, 1, 3, 1}, {2, 2, 2});
  call.v = numbers({1, 1, 3, 1}, {0, 0, 0});
  const Tensor hiding = numbers({3}, {0.25, -kInfinity, -kInfinity});
  call.options.bias = hiding;
  expect_near(call.run().lse, {4 * std::tanh(1.5) + 0.25 - 1});
}

TEST(Reference, CausalPatterns) {
  Call wide(1, 1, 1, 3, 5), tall(1, 1, 1, 4, 2);
  wide.options.causal = tall.options.causal = true;
  wide.options.align = tall.options.align = Align::top_left;
  EXPECT_EQ(wide.pattern(), "x..../xx.../xxx..");
  EXPECT_EQ(tall.pattern(), "x./xx/xx/xx");
  wide.options.align = tall.options.align = Align::bottom_right;
  EXPECT_EQ(wide.pattern(), "xxx../xxxx./xxxxx");
  EXPECT_EQ(tall.pattern(), "../../x./xx");
}

TEST(Reference, WindowPatterns) {
  Call call(1, 1, 1, 4, 6);
  call.options.align = Align::top_left;
  call.options.window = {1, 0, 0};
  EXPECT_EQ(call.pattern(), "x...../xx..../.xx.../..xx..");
  call.options.window = {0, 1, 1};
  EXPECT_EQ(call.pattern(), "xx..../xxx.../x.xx../x..xx.");
  call.options.causal = true;
  EXPECT_EQ(call.pattern(), "x...../xx..../x.x.../x..x..");
  call.options.causal = false;
  call.options.align = Align::bottom_right;
  call.options.window = {kUnlimited, 0, 0};
  EXPECT_EQ(call.pattern(), "xxx.../xxxx../xxxxx./xxxxxx");
  call.options.window = {0, kUnlimited, 2};
  EXPECT_EQ(call.pattern(), "xxxxxx/xx.xxx/xx..xx/xx...x");
}

TEST(Reference, LengthsMovePositions) {
  Call call(1, 1, 1, 3, 6);
  const Tensor start = numbers({1}, {2}, DType::i32), length = numbers({1}, {5}, DType::i32);
  const Tensor queries = numbers({1}, {2}, DType::i32);
  call.options.key_start = start;
  call.options.key_lengths = length;
  call.options.query_lengths = queries;
  EXPECT_EQ(call.pattern(), "..xxx./..xxx./......");
  call.options.causal = true;
  call.options.align = Align::top_left;
  EXPECT_EQ(call.pattern(), "..x.../..xx../......");
  call.options.align = Align::bottom_right;  // of two queries and three keys
  EXPECT_EQ(call.pattern(), "..xx../..xxx./......");
}

TEST(Reference, BroadcastingAlignsToTheRight) {
  Call call(2, 2, 2, 2, 2);
  const Tensor keep = numbers({2, 1, 1}, {1, 0}, DType::boolean);  // of heads
  call.options.keep = keep;
  expect_near(call.run().weights, {.5, .5, .5, .5, 0, 0, 0, 0, .5, .5, .5, .5, 0, 0, 0, 0});
  const Tensor rows = numbers({2, 1, 2, 1}, {1, 0, 0, 1}, DType::boolean);  // of sequences and queries
  call.options.keep = rows;
  expect_near(call.run().weights, {.5, .5, 0, 0, .5, .5, 0, 0, 0, 0, .5, .5, 0, 0, .5, .5});
}

TEST(Reference, HeadsShareKeyHeadsInTurn) {
  Call call(1, 6, 2, 1, 1);
  call.v = numbers({1, 2, 1, 1}, {3, 5});
  expect_near(call.run().output, {3, 3, 3, 5, 5, 5});
}

TEST(Reference, PackedSequencesAreStrangers) {
  Call call(1, 1, 1, 5, 5);
  call.v = numbers({1, 1, 5, 1}, {1, 2, 4, 8, 16});
  const Tensor cu_q = numbers({4}, {0, 2, 2, 5}, DType::i32), cu_k = numbers({4}, {0, 3, 4, 5}, DType::i32);
  const Tensor gates = numbers({3, 1}, {3, 1, 2});
  call.options.cu_q = cu_q;
  call.options.cu_k = cu_k;
  call.options.causal = true;
  call.options.align = Align::bottom_right;
  call.options.gates = gates;
  // Sequence 0: queries at 1, 2 of three keys. Sequence 1: no queries. Sequence 2: queries at -2, -1, 0 of one key.
  expect_near(call.run().output, {4.5, 7, 0, 0, 32});
  EXPECT_EQ(call.pattern(), "xx./xxx/.../.../x..");
  const Attention results = call.run();
  const ConstTensorView statistics = results.statistics;
  EXPECT_EQ(statistics.shape(), (Dims{3, 1, kFullStatistics}));
  EXPECT_EQ(field(statistics.slice(0, 0, 1), Statistic::rows), 2);
  EXPECT_EQ(field(statistics.slice(0, 1, 2), Statistic::rows), 0);
  EXPECT_EQ(field(statistics.slice(0, 1, 2), Statistic::max_logit), -kInfinity);
  EXPECT_EQ(field(statistics.slice(0, 2, 3), Statistic::rows), 1);
}

TEST(Reference, DropoutIsTheStatedMask) {
  constexpr std::int64_t kBatch = 2, kHeads = 2, kQueries = 3, kKeys = 19;
  Call call(kBatch, kHeads, kHeads, kQueries, kKeys);
  call.v = Tensor::zeros({kBatch, kHeads, kKeys, kKeys}, DType::f64);  // an identity shows the dropped weights
  for (std::int64_t n = 0; n < kBatch * kHeads * kKeys; ++n) call.v.as<double>()[n * kKeys + n % kKeys] = 1;
  call.options.dropout = {0.4, 0x0123456789abcdefu};
  const Attention results = call.run();
  std::int64_t n = 0;
  for (std::uint32_t b = 0; b < kBatch; ++b) {
    for (std::uint32_t h = 0; h < kHeads; ++h) {
      for (std::uint32_t i = 0; i < kQueries; ++i) {
        for (std::uint32_t j = 0; j < kKeys; ++j, ++n) {
          const std::uint32_t word = Philox::words(0x0123456789abcdefu, {j / 8, i, h, b})[j % 8 / 2];
          const bool kept = (j % 2 == 0 ? word % 65536 : word / 65536) >= 26214;
          EXPECT_NEAR(results.output.as<double>()[n], kept ? 1 / (0.6 * kKeys) : 0, kTiny);
          EXPECT_NEAR(results.weights.as<double>()[n], 1.0 / kKeys, kTiny);
        }
      }
    }
  }
}

// A key is kept if its number is at least the threshold: the first number of Philox's zero answer is 0xe8d5.
TEST(Reference, DropoutKeepsAtTheThreshold) {
  Call call(1, 1, 1, 1, 1);
  call.v = numbers({1, 1, 1, 1}, {1});
  call.options.dropout = {double{0xe8d5} / 65536, 0};
  expect_near(call.run().output, {65536.0 / (65536 - 0xe8d5)});
  call.options.dropout.p = double{0xe8d6} / 65536;
  expect_near(call.run().output, {0});
}

// Dropout counts keys from key_start; masks by their place in the tensor.
TEST(Reference, KeyStartMovesDropoutButNotMasks) {
  Call padded(1, 1, 1, 1, 20), bare(1, 1, 1, 1, 17);
  const Tensor start = numbers({1}, {3}, DType::i32);
  padded.options.key_start = start;
  padded.options.dropout = bare.options.dropout = {0.5, 1};
  const std::vector<double> powers{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
  bare.v = numbers({1, 1, 17, 1}, powers);
  std::size_t n = 0;
  fill_with(padded.v.view().slice(2, 3, 20), [&] { return powers[n++]; });
  EXPECT_EQ(values_of(padded.run().output), values_of(bare.run().output));

  Call masked(1, 1, 1, 1, 5);
  const Tensor keep = numbers({5}, {0, 1, 1, 0, 1}, DType::boolean), bias = numbers({5}, {0, 0, 0, 0, -kInfinity});
  const Tensor two = numbers({1}, {2}, DType::i32);
  masked.options.key_start = two;
  masked.options.keep = keep;
  EXPECT_EQ(masked.pattern(), "..x.x");
  masked.options.bias = bias;
  EXPECT_EQ(masked.pattern(), "..x..");
}

TEST(Reference, NothingHiddenLeaks) {
  Call call(1, 1, 1, 2, 3);
  const Tensor keep = numbers({3}, {1, 0, 1}, DType::boolean), queries = numbers({1}, {1}, DType::i32);
  call.q = numbers({1, 1, 2, 1}, {1, kNaN});
  call.k = numbers({1, 1, 3, 1}, {0, kNaN, 0});
  call.v = numbers({1, 1, 3, 1}, {1, kInfinity, 3});
  call.options.keep = keep;
  call.options.query_lengths = queries;
  const Attention results = call.run();
  expect_near(results.output, {2, 0});
  expect_near(results.lse, {std::log(2), -kInfinity});
  expect_near(results.weights, {.5, 0, .5, 0, 0, 0});

  // A bias of -inf hides as well as a mask does, in every sense.
  const Tensor bias = numbers({3}, {0, -kInfinity, 0}), all = numbers({1}, {-kInfinity});
  call.options.keep = {};
  call.options.bias = bias;
  expect_near(call.run().output, {2, 0});
  EXPECT_NEAR(field(call.run().statistics, Statistic::normalised_entropy), 1, kTiny);
  call.options.bias = all;
  expect_near(call.run().output, {0, 0});
  expect_near(call.run().lse, {-kInfinity, -kInfinity});
}

TEST(Reference, RowsWithoutKeys) {
  Call call(1, 1, 1, 2, 2);
  const Tensor keep = numbers({2, 1}, {0, 1}, DType::boolean), sink = numbers({1}, {0.5});
  call.options.keep = keep;
  expect_near(call.run().lse, {-kInfinity, std::log(2)});
  call.options.sink_logit = sink;
  const Attention results = call.run();
  expect_near(results.lse, {0.5, std::log(2 + std::exp(0.5))});
  expect_near(results.weights.view().slice(2, 0, 1), {0, 0});
  expect_near(results.output, {0, 0});
  EXPECT_EQ(field(results.statistics, Statistic::rows), 1);
  std::vector<double> nothing(kFullStatistics, 0);
  nothing[static_cast<std::size_t>(Statistic::max_logit)] = -kInfinity;
  expect_near(results.row_statistics.view().slice(2, 0, 1), nothing, 0);
  // A padded query has no lse even with a sink.
  const Tensor queries = numbers({1}, {1}, DType::i32);
  call.options.query_lengths = queries;
  expect_near(call.run().lse, {0.5, -kInfinity});
}

TEST(Reference, ClosedGatesSkipTheValues) {
  Call call = quarter_and_three();
  call.v = numbers({1, 1, 2, 1}, {kNaN, 8});
  const Tensor gates = numbers({1, 1}, {0});
  call.options.gates = gates;
  const Attention results = call.run();
  EXPECT_EQ(results.output.as<double>()[0], 0);
  expect_near(results.weights, {.25, .75});
  expect_near(results.lse, {std::log(4)});
  EXPECT_EQ(field(results.statistics, Statistic::rows), 1);
}

TEST(Reference, StatisticsOfUniformRows) {
  Call call(1, 1, 1, 3, 6);
  call.options.align = Align::bottom_right;  // positions 3, 4, 5
  call.options.causal = true;                // 4, 5 and 6 keys
  const Tensor marked = numbers({1, 6}, {0, 1, 0, 0, 0, 1}, DType::boolean);
  const Tensor targets = numbers({1, 3, 4}, {0, -1, 5, 2, 0, -1, 5, 2, 5, -1, 5, 2}, DType::i32);
  call.wants.marked_keys = marked;
  call.wants.target_keys = targets;
  const Attention results = call.run();
  const auto sum = [&](Statistic statistic, int slot = 0) { return field(results.statistics, statistic, slot); };
  const double shares = 1 / 4.0 + 1 / 5.0 + 1 / 6.0;
  EXPECT_EQ(sum(Statistic::rows), 3);
  EXPECT_NEAR(sum(Statistic::entropy), std::log(4) + std::log(5) + std::log(6), kTiny);
  EXPECT_EQ(sum(Statistic::normalised_rows), 3);
  EXPECT_NEAR(sum(Statistic::normalised_entropy), 3, kTiny);
  EXPECT_NEAR(sum(Statistic::max_weight), shares, kTiny);
  EXPECT_EQ(sum(Statistic::max_offset), -3 - 4 - 5);  // the first of equals
  EXPECT_EQ(sum(Statistic::max_logit), 0);
  EXPECT_NEAR(sum(Statistic::first_weight), shares, kTiny);
  EXPECT_EQ(sum(Statistic::self_rows), 3);
  EXPECT_NEAR(sum(Statistic::self_weight), shares, kTiny);
  EXPECT_EQ(sum(Statistic::previous_rows), 3);
  EXPECT_NEAR(sum(Statistic::previous_weight), shares, kTiny);
  EXPECT_EQ(sum(Statistic::next_rows), 0);
  EXPECT_EQ(sum(Statistic::next_weight), 0);
  EXPECT_NEAR(sum(Statistic::distance), 6 / 4.0 + 10 / 5.0 + 15 / 6.0, kTiny);
  EXPECT_NEAR(sum(Statistic::marked_weight), 1 / 4.0 + 1 / 5.0 + 2 / 6.0, kTiny);
  const std::vector<double> target_rows{3, 0, 1, 3}, target_weights{shares, 0, 1 / 6.0, shares};
  for (int slot = 0; slot < 4; ++slot) {
    EXPECT_EQ(sum(Statistic::target_rows, slot), target_rows[static_cast<std::size_t>(slot)]);
    EXPECT_NEAR(sum(Statistic::target_weight, slot), target_weights[static_cast<std::size_t>(slot)], kTiny);
  }
  EXPECT_EQ(sum(Statistic::sink_weight), 0);

  const ConstTensorView last = results.row_statistics.view().slice(2, 2, 3);
  EXPECT_NEAR(field(last, Statistic::entropy), std::log(6), kTiny);
  EXPECT_EQ(field(last, Statistic::max_offset), -5);
}

TEST(Reference, WatchedKeysGoByPlace) {
  Call call(1, 1, 1, 2, 5);
  const Tensor start = numbers({1}, {2}, DType::i32), marked = numbers({1, 5}, {1, 1, 0, 1, 0}, DType::boolean);
  const Tensor targets = numbers({1, 2, 4}, {2, 1, 4, 3, 2, 0, 4, 3}, DType::i32);
  call.options.key_start = start;
  call.options.causal = true;
  call.options.align = Align::top_left;  // sees place 2, then 2 and 3
  call.wants.marked_keys = marked;
  call.wants.target_keys = targets;
  const Attention results = call.run();
  EXPECT_NEAR(field(results.statistics, Statistic::marked_weight), .5, kTiny);
  const ConstTensorView statistics = results.statistics;
  expect_near(statistics.slice(2, static_cast<int>(Statistic::target_rows), static_cast<int>(Statistic::sink_weight)),
              {2, 0, 0, 1, 1.5, 0, 0, .5});
  EXPECT_EQ(field(results.statistics, Statistic::self_rows), 2);
  EXPECT_EQ(field(results.statistics, Statistic::previous_rows), 1);
}

TEST(Reference, StatisticsOfOneKey) {
  Call call(1, 1, 1, 1, 1);
  const Attention results = call.run();
  EXPECT_EQ(field(results.statistics, Statistic::rows), 1);
  EXPECT_EQ(field(results.statistics, Statistic::entropy), 0);
  EXPECT_EQ(field(results.statistics, Statistic::normalised_rows), 0);
  EXPECT_EQ(field(results.statistics, Statistic::max_weight), 1);
}

TEST(Reference, ChosenWeightsComeInTheOrderAsked) {
  Call call(1, 3, 3, 3, 3);
  call.options.causal = true;
  call.wants.weight_heads = {2};
  call.wants.weight_rows = {2, 0};
  expect_near(call.run().weights, {1 / 3.0, 1 / 3.0, 1 / 3.0, 1, 0, 0});
}

// One query, two keys of equal weight: every gradient fits on a line.
TEST(Reference, GradientsByHand) {
  const Tensor q = numbers({1, 1, 1, 1}, {2}), k = numbers({1, 1, 2, 1}, {3, 3}), v = numbers({1, 1, 2, 1}, {1, 5});
  const Tensor gates = numbers({1}, {0.5}), bias = numbers({2}, {0, 0}), sink = numbers({1}, {6 + std::log(2)});
  const Tensor doutput = numbers({1, 1, 1, 1}, {8}), dlse = numbers({1, 1, 1}, {1});
  Materialised m;
  m.options.gates = gates;
  m.options.bias = bias;
  m.options.sink_logit = sink;  // takes half: weights are a quarter each
  m.gradient_wants = {true, true, true};
  Tensor dq = Tensor::empty({1, 1, 1, 1}, DType::f64), dk = Tensor::empty({1, 1, 2, 1}, DType::f64);
  Tensor dv = Tensor::empty({1, 1, 2, 1}, DType::f64), dbias = Tensor::empty({2}, DType::f64);
  Tensor dsink = Tensor::empty({1}, DType::f64), dgates = Tensor::empty({1, 1}, DType::f64);
  reference::attend_backward(q, k, v, m.options, {doutput, dlse, {}}, m.gradient_wants, {},
                             {dq, dk, dv, dbias, dsink, dgates});
  // dp = 0.5 * 8 * v = {4, 20}, delta = 6: ds = {1/4 (4 - 6 + 1), 1/4 (20 - 6 + 1)}, and 1/2 (0 - 6 + 1) for the sink.
  expect_near(dbias, {-0.25, 3.75});
  expect_near(dsink, {-2.5});
  expect_near(dgates, {8 * 1.5});
  expect_near(dv, {1, 1});
  expect_near(dq, {3 * 3.5});
  expect_near(dk, {-0.5, 7.5});
}

}  // namespace
}  // namespace polyhead::test
