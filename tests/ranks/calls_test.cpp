// What ranks say to each other, and calls that they share, in a program that mpirun starts: all ranks run all tests,
// and rank 0 speaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/ranks.h"
#include "ops/ring.h"
#include "ranks/joined.h"
#include "support/plain.h"
#include "support/random.h"
#include "support/ring_cases.h"

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

std::int64_t place(std::int64_t size, std::int64_t rank, std::int64_t of) { return size * rank / of; }

// Rows of [B,H,T,..] that this rank has: of T rows, not always as many.
ConstTensorView mine_of(const ConstTensorView& x) {
  if (!x.present()) return x;
  return x.slice(2, place(x.shape(2), ranks().rank(), ranks().size()),
                 place(x.shape(2), ranks().rank() + 1, ranks().size()));
}

// The rows of all ranks, side by side.
Tensor gathered(const Tensor& mine, const Dims& shape) {
  Tensor all = Tensor::empty(shape, mine.dtype());
  const auto bytes = static_cast<std::size_t>(mine.view().count()) * size_of(mine.dtype());
  const std::vector<std::string> texts = ranks().gather({static_cast<const char*>(mine.view().data()), bytes});
  Context context(1);
  for (int rank = 0; rank < ranks().size(); ++rank) {
    const TensorView to =
        all.view().slice(2, place(shape[2], rank, ranks().size()), place(shape[2], rank + 1, ranks().size()));
    Tensor part = Tensor::empty(to.shape(), mine.dtype());
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    EXPECT_EQ(text.size(), static_cast<std::size_t>(to.count()) * size_of(mine.dtype()));
    std::copy(text.begin(), text.end(), static_cast<char*>(part.view().data()));
    copy(context, part, to);
  }
  return all;
}

class RingOnRanks : public ::testing::TestWithParam<Case> {};

TEST_P(RingOnRanks, FollowsTheRule) {
  const Materialised m = materialise(GetParam());
  Context context(1);
  const ConstTensorView q = mine_of(m.q), k = mine_of(m.k), v = mine_of(m.v);
  const ops::RingAttention forward = ops::ring_attend(context, ranks(), q, k, v, m.options);
  Attention results;
  results.output = gathered(forward.output, m.upstream.output.shape());
  results.lse = gathered(forward.lse, {m.q.shape(0), m.q.shape(1), m.q.shape(2)});
  AttentionGradients gradients =
      ops::ring_attend_backward(context, ranks(), q, k, v, m.options,
                                {mine_of(m.upstream.output), mine_of(m.upstream.lse), {}}, m.gradient_wants, forward);
  gradients.dq = gathered(gradients.dq, m.q.shape());
  gradients.dk = gathered(gradients.dk, m.k.shape());
  gradients.dv = gathered(gradients.dv, m.v.shape());
  if (ranks().rank() > 0) return;
  EXPECT_TRUE(judge(expected_results(m), views_of(results)));
  EXPECT_TRUE(judge(expected_gradients(m), views_of(gradients)));
}

INSTANTIATE_TEST_SUITE_P(Cases, RingOnRanks, ::testing::ValuesIn(ring_cases()),
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
               bias = Tensor::zeros({3, 3}, DType::f32), numbers = Tensor::zeros({1}, DType::i32);
  const auto with = [&](const AttentionOptions& options) {
    return said([&] { ops::ring_attend(context, ranks(), q, q, q, options); });
  };
  EXPECT_EQ(with({.causal = true}), "nothing");
  const std::string expected = "[ring_attend] ";
  EXPECT_TRUE(with({.keep = keep}).starts_with(expected + "keep: expected none"));
  EXPECT_TRUE(with({.bias = bias}).starts_with(expected + "bias: expected none"));
  EXPECT_TRUE(with({.first_positions = numbers}).starts_with(expected + "first_positions: expected none"));
  EXPECT_TRUE(with({.key_lengths = numbers}).starts_with(expected + "key_lengths: expected none"));
  EXPECT_TRUE(with({.key_start = numbers}).starts_with(expected + "key_start: expected none"));
  EXPECT_TRUE(with({.query_lengths = numbers}).starts_with(expected + "query_lengths: expected none"));
  EXPECT_TRUE(with({.cu_q = numbers}).starts_with(expected + "cu_q and cu_k: expected none"));
  if (ranks().size() == 1) return;
  const std::string other = with({.dropout = {.p = 0.5, .seed = ranks().rank() == 1 ? 7u : 8u}});
  EXPECT_TRUE(other.starts_with(expected + "rank 1 has another set of options")) << other;
}

}  // namespace
}  // namespace polyhead::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  polyhead::test::joined = polyhead::ranks::join();
  if (polyhead::test::joined->rank() > 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int failed = RUN_ALL_TESTS();
  const std::vector<std::string> all = polyhead::test::joined->gather(std::to_string(failed));
  polyhead::test::joined.reset();
  return std::all_of(all.begin(), all.end(), [](const std::string& text) { return text == "0"; }) ? 0 : 1;
}
