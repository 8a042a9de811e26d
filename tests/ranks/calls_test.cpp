// What ranks say to each other, and calls that they share, in a program that mpirun starts: all ranks run all tests,
// and rank 0 speaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "core/ranks.h"
#include "ops/ring.h"
#include "ranks/joined.h"
#include "support/plain.h"
#include "support/random.h"
#include "support/ring_cases.h"
#include "support/shards.h"

namespace polyhead::test {
namespace {

std::unique_ptr<Ranks> joined;

}  // namespace

Ranks& ranks() { return *joined; }

namespace {

std::span<std::byte> bytes_of(std::vector<double>& numbers) { return std::as_writable_bytes(std::span(numbers)); }

TEST(Ranks, SendAndReceive) {
  constexpr std::size_t kCount = 300'000;
  std::vector<double> mine(kCount), theirs(kCount);
  std::iota(mine.begin(), mine.end(), 1e6 * ranks().rank());
  const int n = ranks().size(), next = (ranks().rank() + 1) % n, previous = (ranks().rank() + n - 1) % n;
  ranks().exchange(bytes_of(mine), next, bytes_of(theirs), previous);
  EXPECT_EQ(theirs.front(), 1e6 * previous);
  EXPECT_EQ(theirs.back(), 1e6 * previous + kCount - 1);
  for (int to = 1; to < n; ++to) {
    if (ranks().rank() == 0) ranks().send(bytes_of(mine), to);
    if (ranks().rank() != to) continue;
    ranks().receive(bytes_of(theirs), 0);
    EXPECT_EQ(theirs.back(), kCount - 1);
  }
  ranks().broadcast(bytes_of(mine), n - 1);
  EXPECT_EQ(mine.front(), 1e6 * (n - 1));
}

// Started before they are waited for; each rank waits for the later ones first.
TEST(Ranks, StartMessagesThatAreMatchedInTheirOrder) {
  const int n = ranks().size(), next = (ranks().rank() + 1) % n, previous = (ranks().rank() + n - 1) % n;
  if (n == 1) return;
  constexpr std::size_t kCount = 3;
  std::vector<double> mine[kCount], theirs[kCount];
  std::vector<std::unique_ptr<Ranks::Message>> coming, going;
  for (std::size_t m = 0; m < kCount; ++m) {
    mine[m].assign(200'000 * m, 10.0 * ranks().rank() + static_cast<double>(m));
    theirs[m].resize(mine[m].size());
    coming.push_back(ranks().start_receive(bytes_of(theirs[m]), previous));
    going.push_back(ranks().start_send(bytes_of(mine[m]), next));
  }
  for (std::size_t m = kCount; m-- > 0;) {
    coming[m]->finish();
    going[m]->finish();
    EXPECT_EQ(theirs[m], std::vector<double>(mine[m].size(), 10.0 * previous + static_cast<double>(m)));
  }
}

// The receiver has started first, waits for nothing and makes no call that would move the message along.
TEST(Ranks, AMessageMovesWhileItsRankComputes) {
  ranks().gather("");
  if (ranks().size() == 1 || ranks().rank() > 1) return;
  std::vector<double> numbers(2'000'000, ranks().rank() == 0 ? 1 : 0);
  if (ranks().rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return ranks().send(bytes_of(numbers), 1);
  }
  const auto message = ranks().start_receive(bytes_of(numbers), 0);
  const volatile double& last = numbers.back();
  for (int n = 0; n < 1500 && last != 1; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(last, 1);
  message->finish();
}

// MPI counts the bytes of a message by int, so that this one is sent in pieces; not among the others, for it takes
// seconds and 4.3 GB; make check runs it.
TEST(Ranks, DISABLED_AMessageOfMoreThanTwoGibibytes) {
  if (ranks().size() == 1 || ranks().rank() > 1) return;
  constexpr std::size_t kBytes = (std::size_t{1} << 31) + 12345;
  const auto byte_at = [](std::size_t at) { return static_cast<std::byte>(at * 31 % 251); };
  std::vector<std::byte> bytes(kBytes);
  if (ranks().rank() == 0) {
    for (std::size_t at = 0; at < kBytes; ++at) bytes[at] = byte_at(at);
    ranks().send(bytes, 1);
    return;
  }
  ranks().receive(bytes, 0);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < kBytes; ++at) wrong += bytes[at] != byte_at(at) ? 1 : 0;
  EXPECT_EQ(wrong, 0);
}

TEST(Ranks, GatherTextsOfAnyLength) {
  for (const int more : {1, 50'000}) {  // of which the longer ones do not go at once
    const auto text_of = [&](int rank) {
      return std::string(static_cast<std::size_t>(rank * rank * more), static_cast<char>(rank));
    };
    const std::vector<std::string> all = ranks().gather(text_of(ranks().rank()));
    ASSERT_EQ(std::ssize(all), ranks().size());
    for (int rank = 0; rank < ranks().size(); ++rank) EXPECT_TRUE(all[static_cast<std::size_t>(rank)] == text_of(rank));
  }
}

// Even and odd ones: groups of their own, at the same time.
TEST(Ranks, Split) {
  const int own = ranks().rank() % 2, size = (ranks().size() + 1 - own) / 2;
  const std::unique_ptr<Ranks> some = ranks().split(own);
  ASSERT_EQ(some->size(), size);
  EXPECT_EQ(some->rank(), ranks().rank() / 2);
  const std::vector<std::string> all = some->gather(std::to_string(ranks().rank()));
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(all[static_cast<std::size_t>(rank)], std::to_string(2 * rank + own));
  std::vector<double> mine{1.0 * ranks().rank()};
  some->broadcast(bytes_of(mine), size - 1);
  EXPECT_EQ(mine[0], 2 * (size - 1) + own);
}

// Once each, in rising order on every rank.
TEST(Ranks, ShareJobs) {
  for (const std::int64_t count : {0, 1, 5, 200}) {
    std::vector<std::int64_t> mine;
    std::vector<std::string> texts(static_cast<std::size_t>(count));
    ranks().share(count, [&](std::int64_t job) {
      mine.push_back(job);
      texts[static_cast<std::size_t>(job)] = std::to_string(job);
    });
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    const std::vector<std::string> counts = ranks().gather(std::to_string(mine.size()));
    const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0},
                                     [](std::int64_t all, const std::string& text) { return all + std::stoll(text); });
    EXPECT_EQ(sum, count);
    complete(ranks(), texts);
    for (std::int64_t job = 0; job < count; ++job) EXPECT_EQ(texts[static_cast<std::size_t>(job)], std::to_string(job));
  }
}

// Those of one call, though nothing else is said between two; jobs that take their time, so that others ask while one
// still works.
TEST(Ranks, ShareTwiceInARow) {
  std::int64_t mine = 0;
  for (const std::int64_t count : {9, 3, 40, 0, 11}) {
    ranks().share(count, [&](std::int64_t job) {
      std::this_thread::sleep_for(std::chrono::microseconds(200 * (job % 3)));
      ++mine;
    });
  }
  std::int64_t sum = 0;
  for (const std::string& text : ranks().gather(std::to_string(mine))) sum += std::stoll(text);
  EXPECT_EQ(sum, 9 + 3 + 40 + 11);
}

using ops::RingOrder;

// Rows of [B,H,T,..], or of another axis, that this rank has: of T rows, not always as many.
Tensor mine_of(Context& context, const ConstTensorView& x, RingOrder order, int axis = 2) {
  if (!x.present()) return {};
  const auto rows = ops::rows_on(ranks().rank(), ops::evenly(x.shape(axis), ranks().size()), order);
  Dims shape = x.shape();
  shape[axis] = 0;
  for (const ops::RowRange& some : rows) shape[axis] += some.count();
  Tensor mine = Tensor::empty(shape, x.dtype());
  std::int64_t at = 0;
  for (const ops::RowRange& some : rows) {
    copy(context, x.slice(axis, some.begin, some.end), mine.view().slice(axis, at, at + some.count()));
    at += some.count();
  }
  return mine;
}

// The rows of all ranks, where they belong.
Tensor gathered(Context& context, const Tensor& mine, const Dims& shape, RingOrder order) {
  if (!mine.present()) return {};
  Tensor all = Tensor::empty(shape, mine.dtype());
  const std::vector<std::string> texts = ranks().gather({static_cast<const char*>(mine.view().data()), mine.bytes()});
  for (int rank = 0; rank < ranks().size(); ++rank) {
    const auto rows = ops::rows_on(rank, ops::evenly(shape[2], ranks().size()), order);
    Dims part_shape = shape;
    part_shape[2] = 0;
    for (const ops::RowRange& some : rows) part_shape[2] += some.count();
    Tensor part = Tensor::empty(part_shape, mine.dtype());
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    EXPECT_EQ(text.size(), part.bytes());
    std::copy(text.begin(), text.end(), static_cast<char*>(part.view().data()));
    std::int64_t at = 0;
    for (const ops::RowRange& some : rows) {
      copy(context, part.view().slice(2, at, at + some.count()), all.view().slice(2, some.begin, some.end));
      at += some.count();
    }
  }
  return all;
}

// The same call with this rank's rows, and its results with those of all.
struct RingResults {
  Attention results;
  AttentionGradients gradients;
};

RingResults around_the_ring(const Materialised& m, RingOrder order) {
  Context context(1);
  const ops::Ring ring{ranks(), order};
  const auto mine = [&](const ConstTensorView& x, int axis = 2) { return mine_of(context, x, order, axis); };
  const auto all = [&](const Tensor& x, const Dims& shape) { return gathered(context, x, shape, order); };
  const Tensor q = mine(m.q), k = mine(m.k), v = mine(m.v), marked = mine(m.wants.marked_keys, 1),
               targets = mine(m.wants.target_keys, 1);
  AttentionWants wants = m.wants;
  wants.marked_keys = marked;
  wants.target_keys = targets;
  ops::RingAttention forward = ops::ring_attend(context, ring, q, k, v, m.options, wants);
  RingResults found;
  const Dims rows{m.q.shape(0), m.q.shape(1), m.q.shape(2)};
  found.results.output = all(forward.output, m.upstream.output.shape());
  found.results.lse = all(forward.lse, rows);
  if (forward.row_statistics.present()) {
    found.results.row_statistics =
        all(forward.row_statistics, {rows[0], rows[1], rows[2], forward.row_statistics.view().shape(3)});
  }
  const Tensor doutput = mine(m.upstream.output), dlse = mine(m.upstream.lse);
  found.gradients =
      ops::ring_attend_backward(context, ring, q, k, v, m.options, {doutput, dlse, {}}, m.gradient_wants, forward);
  found.results.statistics = std::move(forward.statistics);
  found.gradients.dq = all(found.gradients.dq, m.q.shape());
  found.gradients.dk = all(found.gradients.dk, m.k.shape());
  found.gradients.dv = all(found.gradients.dv, m.v.shape());
  return found;
}

class RingOnRanks : public ::testing::TestWithParam<Case> {};

TEST_P(RingOnRanks, FollowsTheRule) {
  const Materialised m = materialise(GetParam());
  RingResults in_turn = around_the_ring(m, RingOrder::in_turn), halves = around_the_ring(m, RingOrder::halves);
  if (ranks().rank() > 0) return;
  const ExpectedResults expected = expected_results(m);
  const ExpectedGradients expected_back = expected_gradients(m);
  for (RingResults* each : {&in_turn, &halves}) {
    SCOPED_TRACE(each == &halves ? "halves" : "in turn");
    RingResults& found = *each;
    if (found.results.statistics.present()) {
      expect_nothing_unknown(found.results.statistics, expected.exact.statistics);
    }
    if (found.results.row_statistics.present()) {
      expect_nothing_unknown(found.results.row_statistics, expected.exact.row_statistics);
    }
    EXPECT_TRUE(judge(expected, views_of(found.results)));
    EXPECT_TRUE(judge(expected_back, views_of(found.gradients)));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RingOnRanks,
                         ::testing::ValuesIn(ring_cases({DType::f32, DType::bf16, DType::f16, DType::f64})),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(MoreCases, RingOnRanks, ::testing::ValuesIn(ranks_cases()),
                         [](const auto& instance) { return instance.param.name; });

std::string said(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(RingOnRanks, RefusesWhatItCannotDo) {
  Context context(1);
  const Tensor q = Tensor::zeros({1, 2, 3, 4}, DType::f32), keep = Tensor::zeros({3, 3}, DType::boolean),
               bias = Tensor::zeros({3, 3}, DType::f32), marked = Tensor::zeros({1, 3}, DType::boolean);
  Tensor numbers = Tensor::zeros({1}, DType::i32), offsets = Tensor::zeros({2}, DType::i32);
  Tensor targets = Tensor::zeros({1, 3, 4}, DType::i32);
  offsets.as<std::int32_t>()[1] = 3 * ranks().size();
  const auto with = [&](const AttentionOptions& options, const AttentionWants& wants = {}) {
    return said([&] { ops::ring_attend(context, {ranks()}, q, q, q, options, wants); });
  };
  EXPECT_EQ(with({.causal = true}), "nothing");
  EXPECT_EQ(with({.key_lengths = numbers}), "nothing");
  EXPECT_EQ(with({.cu_q = offsets, .cu_k = offsets}), "nothing");
  const auto expect = [](const std::string& found, const std::string& words) {
    EXPECT_TRUE(found.starts_with("[ring_attend] " + words)) << found;
  };
  expect(with({.keep = keep}), "keep: expected none around a ring");
  expect(with({.bias = bias}), "bias: expected none around a ring");
  expect(with({.key_start = numbers}), "key_start: expected none around a ring, since it moves");
  expect(with({.cu_q = offsets, .cu_k = offsets, .dropout = {.p = 0.5}}), "dropout of packed sequences: expected none");
  expect(with({.window = {.left = 1, .always_first = 1}, .cu_q = offsets, .cu_k = offsets}),
         "always_first of packed sequences: expected none");
  expect(with({}, {.weights = true}), "weights: expected none around a ring");
  expect(with({}, {.logits = LogitStage::scaled}), "logits: expected none around a ring");
  expect(with({}, {.marked_keys = marked}), "marked_keys and target_keys belong to the full set");
  // What the whole call is refused for, before anything travels.
  expect(with({.cu_q = offsets}), "packed batches need both cu_q and cu_k");
  offsets.as<std::int32_t>()[1] = 3 * ranks().size() + 1;
  expect(with({.cu_q = offsets, .cu_k = offsets}), "cu_q: expected offsets from 0 to");
  numbers.as<std::int32_t>()[0] = 3 * ranks().size() + 1;
  expect(with({.key_lengths = numbers}), "key_lengths[0]: expected 0 to");
  const Tensor narrow = Tensor::zeros({1, 2, 3, 5}, DType::f32);
  expect(said([&] { ops::ring_attend(context, {ranks()}, q, narrow, q, {}); }), "k: ");
  // What one rank alone has wrong ends all.
  if (ranks().rank() == 0) targets.as<std::int32_t>()[0] = 3 * ranks().size();
  const std::string wrong = with({}, {.statistics = StatisticsSet::full, .target_keys = targets});
  EXPECT_TRUE(wrong.find("target_keys[0,0,0]: expected a key below") != wrong.npos) << wrong;
  if (ranks().size() == 1) return;
  expect(with({.dropout = {.p = 0.5, .seed = ranks().rank() == 1 ? 7u : 8u}}), "rank 1 has another set of options");
  numbers.as<std::int32_t>()[0] = ranks().rank() == 1 ? 1 : 2;
  expect(with({.key_lengths = numbers}), "rank 1 has another set of options");
  expect(
      said([&] {
        ops::ring_attend(context, {ranks(), ranks().rank() == 1 ? RingOrder::halves : RingOrder::in_turn}, q, q, q, {});
      }),
      "rank 1 has another order of rows");
}

// Of one rank alone: all say so, and none waits for what the others would have sent.
TEST(RingOnRanks, RefusesGradientsBeforeAnythingIsSent) {
  Context context(1);
  const Tensor q = normal({1, 2, 3, 4}, "q", DType::f32), longer = normal({1, 2, 4, 4}, "q", DType::f32),
               sink = normal({2}, "sink", DType::f32), f64 = normal({1, 2, 3, 4}, "q", DType::f64);
  const ops::Ring ring{ranks()};
  ops::RingAttention forward = ops::ring_attend(context, ring, q, q, q, {});
  const int wrong = ranks().size() - 1;
  const auto with = [&](const UpstreamGradients& upstream, const GradientWants& wants = {}, bool options_too = false) {
    const bool mine = ranks().rank() == wrong;
    AttentionOptions options;
    if (options_too) options.sink_logit = sink;
    return said([&] {
      ops::ring_attend_backward(context, ring, q, q, q, options, mine ? upstream : UpstreamGradients{.output = q},
                                mine || !options_too ? wants : GradientWants{}, forward);
    });
  };
  const auto expect = [&](const std::string& found, const std::string& words) {
    const std::string rank = ranks().rank() == wrong ? "" : "[ranks] rank " + std::to_string(wrong) + ": ";
    EXPECT_TRUE(found.starts_with(rank + "[ring_attend_backward] " + words)) << found;
  };
  EXPECT_EQ(with({.output = q}), "nothing");
  expect(with({.output = longer}), "doutput: ");
  expect(with({.output = f64}), "doutput: ");
  expect(with({}), "doutput: ");
  expect(with({.output = q, .lse = q}), "dlse: ");
  expect(with({.output = q, .weights = q}), "dweights: expected none around a ring");
  const Tensor lse = std::exchange(forward.lse, {});
  const std::string none = with({.output = q});
  EXPECT_TRUE(none.find("[ring_attend_backward] forward lse: ") != none.npos) << none;
  forward.lse = clone(context, lse);
  const std::string unknown = with({.output = q}, {.sink_logit = true});
  EXPECT_TRUE(unknown.find("the gradient of sink_logit is wanted, but there is no sink_logit") != unknown.npos)
      << unknown;
  if (ranks().size() == 1) return;
  const std::string differs = with({.output = q}, {.sink_logit = true}, true);
  EXPECT_TRUE(differs.find("has another set of wanted gradients") != differs.npos) << differs;
}

}  // namespace
}  // namespace polyhead::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // In pieces that the messages of these tests are longer than, unless all is to be as in the command.
  const bool large = argc > 1 && std::string_view(argv[1]) == "large";
  polyhead::test::joined = large ? polyhead::ranks::join() : polyhead::ranks::join(std::size_t{1} << 20);
  if (polyhead::test::joined->rank() > 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int failed = RUN_ALL_TESTS();
  const std::vector<std::string> all = polyhead::test::joined->gather(std::to_string(failed));
  polyhead::test::joined.reset();
  return std::all_of(all.begin(), all.end(), [](const std::string& text) { return text == "0"; }) ? 0 : 1;
}
