// The ops of a transformer beside attention: against their definitions by the rule of correctness, and their gradients
// by finite differences in f64.
#include "reference/feed_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "support/bits.h"
#include "support/compare.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

constexpr std::int64_t kRows = 37, kColumns = 45;

Tensor like(const Tensor& tensor) { return Tensor::zeros(tensor.shape(), tensor.dtype()); }

template <class Real>
std::vector<Real> row_of(const Tensor& tensor, std::int64_t row) {
  const reference::Array<double> all(tensor.view());
  const std::int64_t columns = tensor.shape()[tensor.shape().rank() - 1];
  const auto begin = all.values().begin() + row * columns;
  return std::vector<Real>(begin, begin + columns);
}

// A tensor of what `make(row)` gives for every row.
template <class Make>
Tensor by_rows(const Dims& shape, DType dtype, const Make& make) {
  Tensor tensor = Tensor::empty(shape, dtype);
  std::vector<double> values;
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    for (const auto value : make(row)) values.push_back(static_cast<double>(value));
  }
  std::size_t next = 0;
  fill_with(tensor.view(), [&] { return values[next++]; });
  return tensor;
}

// `make(Real{}, row)` in double, exact, and in the type of `got`, plain.
template <class Make>
void expect_right(const char* what, const Tensor& got, const Make& make) {
  const Tensor exact = by_rows(got.shape(), DType::f64, [&](std::int64_t row) { return make(double{}, row); });
  if (got.dtype() == DType::f64) {
    for (std::int64_t n = 0; n < count_of(got.shape()); ++n) {
      ASSERT_NEAR(got.as<double>()[n], exact.as<double>()[n], 1e-13) << what << " at " << n;
    }
    return;
  }
  const Tensor plain = by_rows(got.shape(), DType::f32, [&](std::int64_t row) { return make(float{}, row); });
  EXPECT_TRUE(near_enough(what, got, exact, plain));
}

// dx is the slope of sum(f * weight): value() computes that sum.
void expect_slopes(const char* what, Tensor& x, const Tensor& dx, const std::function<double()>& value) {
  constexpr double kStep = 1e-6;
  const std::int64_t count = count_of(x.shape());
  for (std::int64_t n = 0; n < count; n += std::max<std::int64_t>(1, count / 50)) {
    double& at = x.as<double>()[n];
    const double before = at;
    at = before + kStep;
    const double above = value();
    at = before - kStep;
    const double below = value();
    at = before;
    EXPECT_NEAR(dx.as<double>()[n], (above - below) / (2 * kStep), 1e-7) << what << " at " << n;
  }
}

double product(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t n = 0; n < count_of(a.shape()); ++n) sum += a.as<double>()[n] * b.as<double>()[n];
  return sum;
}

class FeedForward : public ::testing::TestWithParam<DType> {
 protected:
  Context context_{2};
};
INSTANTIATE_TEST_SUITE_P(Types, FeedForward, ::testing::Values(DType::f32, DType::f64),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

TEST_P(FeedForward, Norms) {
  const DType dtype = GetParam();
  const Tensor x = normal({kRows, kColumns}, "x", dtype, 3), gamma = normal({kColumns}, "gamma", dtype),
               beta = normal({kColumns}, "beta", dtype);
  for (const bool centred : {true, false}) {
    Tensor y = like(x), mean_rstd = Tensor::zeros({kRows, 2}, dtype);
    ops::normalise(context_, x, gamma, centred ? beta.view() : ConstTensorView{}, 1e-5, y, mean_rstd);
    expect_right(centred ? "LayerNorm" : "RMSNorm", y, [&](auto real, std::int64_t row) {
      using Real = decltype(real);
      return reference::normalised<Real>(row_of<Real>(x, row), row_of<Real>(gamma, 0),
                                         centred ? row_of<Real>(beta, 0) : std::vector<Real>{},
                                         static_cast<Real>(1e-5));
    });
  }
}

TEST_P(FeedForward, Activations) {
  const Tensor x = normal({kRows, 2 * kColumns}, "x", GetParam(), 3);
  Tensor y = like(x), gated = Tensor::zeros({kRows, kColumns}, GetParam());
  ops::elementwise(context_, ops::Elementwise::gelu, x, {}, y);
  expect_right("gelu", y, [&](auto real, std::int64_t row) {
    auto values = row_of<decltype(real)>(x, row);
    for (auto& value : values) value = reference::gelu(value);
    return values;
  });
  ops::elementwise(context_, ops::Elementwise::erf_gelu, x, {}, y);
  expect_right("erf_gelu", y, [&](auto real, std::int64_t row) {
    auto values = row_of<decltype(real)>(x, row);
    for (auto& value : values) value = reference::erf_gelu(value);
    return values;
  });
  for (const ops::Gate kind : {ops::Gate::silu, ops::Gate::gelu}) {
    ops::gate(context_, kind, x, gated);
    expect_right("gate", gated, [&](auto real, std::int64_t row) {
      const auto values = row_of<decltype(real)>(x, row);
      std::vector<decltype(real)> out;
      for (std::size_t c = 0; c < kColumns; ++c) {
        const auto f = kind == ops::Gate::silu ? reference::silu(values[c]) : reference::gelu(values[c]);
        out.push_back(f * values[c + kColumns]);
      }
      return out;
    });
  }
  ops::elementwise(context_, ops::Elementwise::softcap, x, {}, y, 2.5);
  expect_right("softcap", y, [&](auto real, std::int64_t row) {
    auto values = row_of<decltype(real)>(x, row);
    for (auto& value : values) value = decltype(real)(2.5) * std::tanh(value / decltype(real)(2.5));
    return values;
  });
}

TEST_P(FeedForward, CrossEntropy) {
  const Tensor logits = normal({kRows, kColumns}, "logits", GetParam(), 4);
  Tensor targets = Tensor::empty({kRows}, DType::i32), losses = Tensor::zeros({kRows}, GetParam());
  for (std::int32_t n = 0; n < kRows; ++n) targets.as<std::int32_t>()[n] = n % 5 == 0 ? -1 : n;
  Tensor shares = like(losses), totals = Tensor::zeros({2}, DType::f64);
  ops::cross_entropy(context_, logits, targets, ops::Share::all, losses, shares, totals);
  const ops::CrossEntropy found = ops::read(context_, totals);
  EXPECT_EQ(found.count, 29);
  expect_right("losses", losses, [&](auto real, std::int64_t row) {
    using Real = decltype(real);
    const std::int32_t target = targets.as<std::int32_t>()[row];
    const Real loss = target < 0
                          ? Real{0}
                          : reference::cross_entropy<Real>(row_of<Real>(logits, row), static_cast<std::size_t>(target));
    return std::vector<Real>{loss};
  });
  // With the gradient, and in the logits' own memory, the same losses; and what the logits were before.
  Tensor again = normal({kRows, kColumns}, "logits", GetParam(), 4), others = Tensor::zeros({kRows}, GetParam());
  Tensor target_scores = normal({kRows, 2}, "target_scores", GetParam());
  ops::cross_entropy(context_, again, targets, ops::Share::all, others, shares, totals, again, target_scores);
  EXPECT_EQ(ops::read(context_, totals).loss, found.loss);
  EXPECT_TRUE(same_bits("losses", losses, others));
  expect_right("target_scores", target_scores, [&](auto real, std::int64_t row) {
    using Real = decltype(real);
    const std::int32_t target = targets.as<std::int32_t>()[row];
    if (target < 0) return std::vector<Real>{0, 0};
    const std::vector<Real> values = row_of<Real>(logits, row);
    const Real sum = std::accumulate(values.begin(), values.end(), Real{0}), at = values[std::size_t(target)];
    const bool first = std::max_element(values.begin(), values.end()) - values.begin() == target;
    return std::vector<Real>{at - sum / Real(values.size()), first ? Real{1} : Real{0}};
  });
}

// Of several that are largest the first counts, wherever they stand among the lanes.
TEST(CrossEntropy, LooksForTheFirstOfTheLargest) {
  Context context(1);
  constexpr std::int32_t kWide = 70;
  Tensor logits = Tensor::zeros({1, kWide}, DType::f32), targets = Tensor::zeros({1}, DType::i32),
         losses = Tensor::zeros({1}, DType::f32), shares = like(losses), totals = Tensor::zeros({2}, DType::f64),
         target_scores = Tensor::zeros({1, 2}, DType::f32);
  for (const auto& [first, second] : {std::pair{0, 69}, {0, 1}, {15, 16}, {63, 64}, {64, 69}}) {
    for (std::int32_t target : {first, second, 40}) {
      std::fill_n(logits.as<float>(), kWide, -1.0f);
      logits.as<float>()[first] = logits.as<float>()[second] = 2;
      targets.as<std::int32_t>()[0] = target;
      ops::cross_entropy(context, logits, targets, ops::Share::all, losses, shares, totals, {}, target_scores);
      EXPECT_EQ(target_scores.as<float>()[1], target == first ? 1 : 0) << first << " " << second << " " << target;
      EXPECT_NEAR(target_scores.as<float>()[0], logits.as<float>()[target] + 64.0 / 70, 1e-6);
    }
  }
}

TEST(FeedForwardGradients, AreFiniteDifferences) {
  Context context(1);
  Tensor x = normal({7, 18}, "x", DType::f64), gamma = normal({18}, "gamma", DType::f64),
         beta = normal({18}, "beta", DType::f64), mean_rstd = Tensor::zeros({7, 2}, DType::f64);
  const Tensor dy = normal({7, 18}, "dy", DType::f64), dhalf = normal({7, 9}, "dhalf", DType::f64);
  Tensor y = like(x), half = like(dhalf), dx = like(x), dgamma = like(gamma), dbeta = like(beta);
  for (const bool centred : {true, false}) {
    const auto value = [&] {
      ops::normalise(context, x, gamma, centred ? beta.view() : TensorView{}, 1e-3, y, mean_rstd);
      return product(y, dy);
    };
    value();
    ops::normalise_backward(context, x, gamma, mean_rstd, dy, {}, dx, dgamma, centred ? dbeta.view() : TensorView{});
    expect_slopes("norm dx", x, dx, value);
    expect_slopes("norm dgamma", gamma, dgamma, value);
    if (centred) expect_slopes("norm dbeta", beta, dbeta, value);
  }
  using ops::Elementwise;
  for (const auto& [forward, backward] : {std::pair{Elementwise::gelu, Elementwise::gelu_backward},
                                          {Elementwise::erf_gelu, Elementwise::erf_gelu_backward},
                                          {Elementwise::softcap, Elementwise::softcap_backward}}) {
    ops::elementwise(context, backward, x, dy, dx);
    Tensor again = like(x), sums = Tensor::zeros({18}, DType::f64), wanted = like(sums);
    ops::elementwise(context, backward, x, dy, again, 1, sums);
    ops::add_row_backward(context, dx, wanted);
    EXPECT_TRUE(same_bits("slopes", again, dx));
    EXPECT_TRUE(same_bits("sums of slopes", sums, wanted));
    expect_slopes(std::string(kernels::name_of(forward)).c_str(), x, dx, [&] {
      ops::elementwise(context, forward, x, {}, y);
      return product(y, dy);
    });
  }
  for (const ops::Gate kind : {ops::Gate::silu, ops::Gate::gelu}) {
    ops::gate_backward(context, kind, x, dhalf, dx);
    expect_slopes("gate", x, dx, [&] {
      ops::gate(context, kind, x, half);
      return product(half, dhalf);
    });
  }
  Tensor targets = Tensor::empty({7}, DType::i32), losses = Tensor::zeros({7}, DType::f64), shares = like(losses),
         totals = Tensor::zeros({2}, DType::f64);
  for (std::int32_t n = 0; n < 7; ++n) targets.as<std::int32_t>()[n] = n == 3 ? -1 : 2 * n;
  for (const ops::Share share : {ops::Share::all, ops::Share::sequences}) {
    const auto loss = [&] {
      ops::cross_entropy(context, x, targets, share, losses, shares, totals);
      return ops::read(context, totals).loss;
    };
    ops::cross_entropy(context, x, targets, share, losses, shares, totals, dx);
    expect_slopes("cross entropy", x, dx, loss);
  }
  // What arrives at x by another way is added, also in place.
  Tensor plus = normal({7, 18}, "plus", DType::f64), sum = like(x);
  ops::normalise(context, x, gamma, beta, 1e-3, y, mean_rstd);
  ops::normalise_backward(context, x, gamma, mean_rstd, dy, {}, dx, dgamma, dbeta);
  ops::elementwise(context, ops::Elementwise::add, dx, plus, sum);
  ops::normalise_backward(context, x, gamma, mean_rstd, dy, plus, plus, dgamma, dbeta);
  for (std::int64_t n = 0; n < count_of(sum.shape()); ++n) {
    EXPECT_NEAR(plus.as<double>()[n], sum.as<double>()[n], 1e-14);
  }
}

// Each sequence's rows are worth 1 together, and one without any target nothing.
TEST(CrossEntropy, SharesOutBySequence) {
  Context context(1);
  const Tensor logits = normal({3, 4, 5}, "logits", DType::f64);
  Tensor targets = Tensor::zeros({3, 4}, DType::i32), losses = Tensor::zeros({3, 4}, DType::f64), shares = like(losses),
         totals = Tensor::zeros({2}, DType::f64);
  std::int32_t* target = targets.as<std::int32_t>();
  target[1] = target[2] = -1;
  for (int n = 4; n < 8; ++n) target[n] = -1;
  ops::cross_entropy(context, logits, targets, ops::Share::sequences, losses, shares, totals);
  const ops::CrossEntropy found = ops::read(context, totals);
  const double* loss = losses.as<double>();
  EXPECT_EQ(found.count, 6);
  EXPECT_NEAR(found.loss, (loss[0] + loss[3]) / 2 + (loss[8] + loss[9] + loss[10] + loss[11]) / 4, 1e-13);
}

TEST(CrossEntropy, ShowsWhatIsNoNumber) {
  Context context(1);
  for (const std::int64_t V : {5, 40}) {
    for (const std::int64_t at : {std::int64_t{0}, V - 1}) {
      Tensor logits = normal({1, V}, "logits", DType::f32), targets = Tensor::zeros({1}, DType::i32),
             losses = Tensor::zeros({1}, DType::f32), shares = like(losses), totals = Tensor::zeros({2}, DType::f64);
      targets.as<std::int32_t>()[0] = 1;
      logits.as<float>()[at] = std::nanf("");
      ops::cross_entropy(context, logits, targets, ops::Share::all, losses, shares, totals);
      EXPECT_TRUE(std::isnan(ops::read(context, totals).loss));
    }
  }
}

TEST(Pool, IsTheMeanOfWhatExists) {
  Context context(2);
  Tensor x = normal({3, 4, 5}, "x", DType::f64), y = Tensor::zeros({3, 5}, DType::f64), dx = like(x);
  const Tensor dy = normal({3, 5}, "dy", DType::f64);
  Tensor lengths = Tensor::empty({3}, DType::i32);
  for (std::int32_t b = 0; b < 3; ++b) lengths.as<std::int32_t>()[b] = b + 2;
  const auto value = [&] {
    ops::pool(context, x, lengths, y);
    return product(y, dy);
  };
  value();
  EXPECT_NEAR(y.as<double>()[0], (x.as<double>()[0] + x.as<double>()[5]) / 2, 1e-15);
  ops::pool_backward(context, dy, lengths, dx);
  expect_slopes("pool", x, dx, value);
  lengths.as<std::int32_t>()[1] = 5;
  EXPECT_THROW(ops::pool(context, x, lengths, y), Error);
}

// Rows of the table, and gradients that fall on one of them add up in order: the same bits for any number of threads.
TEST(Embedding, LooksUpAndAddsUp) {
  Random random("indices");
  const Tensor table = normal({50, 33}, "table", DType::f32), dy = normal({40, 60, 33}, "dy", DType::f32);
  Tensor indices = Tensor::empty({40, 60}, DType::i32), y = like(dy);
  fill_with(indices.view(), [&] { return static_cast<double>(random.below(50)); });
  Context one(1);
  ops::embed(one, table, indices, {}, y);
  std::vector<double> sums(50 * 33);
  for (std::int64_t n = 0; n < 2400; ++n) {
    const std::int32_t index = indices.as<std::int32_t>()[n];
    for (std::int64_t c = 0; c < 33; ++c) {
      ASSERT_EQ(y.as<float>()[n * 33 + c], table.as<float>()[index * 33 + c]);
      sums[static_cast<std::size_t>(index * 33 + c)] += static_cast<double>(dy.as<float>()[n * 33 + c]);
    }
  }
  Tensor dtable = like(table);
  ops::embed_backward(one, dy, indices, dtable);
  for (std::size_t n = 0; n < sums.size(); ++n) EXPECT_NEAR(dtable.as<float>()[n], sums[n], 1e-4);
  for (int threads = 2; threads <= 8; threads += 3) {
    Context context(threads);
    Tensor again = like(table);
    ops::embed_backward(context, dy, indices, again);
    EXPECT_TRUE(same_bits("dtable", dtable, again));
  }
}

// The table's gradient is added to; that of positions is written whole, also for places that the sequences do not have.
TEST(Embedding, GradientsAddUpOrReplace) {
  const Tensor dy = normal({2, 3, 5}, "dy", DType::f32);
  Tensor indices = Tensor::zeros({2, 3}, DType::i32), dtable = Tensor::empty({4, 5}, DType::f32),
         dpositions = Tensor::empty({7, 5}, DType::f32);
  std::fill_n(dtable.as<float>(), 20, 9.0f);
  std::fill_n(dpositions.as<float>(), 35, 9.0f);
  Context context(1);
  ops::embed_backward(context, dy, indices, dtable);
  ops::positions_backward(context, dy, dpositions);
  for (std::int64_t n = 0; n < 20; ++n) {
    double sum = 9;
    for (std::int64_t row = 0; row < 6 && n < 5; ++row) sum += static_cast<double>(dy.as<float>()[row * 5 + n]);
    EXPECT_NEAR(dtable.as<float>()[n], sum, 1e-5) << n;
  }
  for (std::int64_t n = 0; n < 35; ++n) {
    const float* both = dy.as<float>() + n;
    EXPECT_FLOAT_EQ(dpositions.as<float>()[n], n < 15 ? both[0] + both[15] : 0) << n;
  }
}

TEST(FeedForwardThreads, ChangeNoBit) {
  const Tensor x = normal({900, 70}, "x", DType::f32), dy = normal({900, 70}, "dy", DType::f32),
               gamma = normal({70}, "gamma", DType::f32), beta = normal({70}, "beta", DType::f32);
  std::vector<Tensor> first;
  for (int threads : {1, 2, 5, 8}) {
    Context context(threads);
    Tensor y = like(x), mean_rstd = Tensor::zeros({900, 2}, DType::f32), dx = like(x), dgamma = like(gamma),
           dbeta = like(beta);
    ops::normalise(context, x, gamma, beta, 1e-5, y, mean_rstd);
    ops::normalise_backward(context, x, gamma, mean_rstd, dy, {}, dx, dgamma, dbeta);
    std::vector<Tensor> now;
    for (Tensor* tensor : {&y, &dx, &dgamma, &dbeta}) now.push_back(std::move(*tensor));
    if (first.empty()) first = std::move(now);
    for (std::size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(same_bits("norm", first[i], now[i])) << i;
  }
}

TEST(FeedForwardErrors, SayWhatWasExpected) {
  Context context(1);
  const Tensor x = normal({4, 6}, "x", DType::f32), gamma = normal({6}, "g", DType::f32),
               other = normal({5}, "g", DType::f32), half = Tensor::zeros({4, 6}, DType::f16),
               odd = normal({4, 7}, "x", DType::f32);
  Tensor y = like(x), mean_rstd = Tensor::zeros({4, 2}, DType::f32), narrow = Tensor::zeros({4, 3}, DType::f32),
         losses = Tensor::zeros({4}, DType::f32);
  EXPECT_THROW(ops::normalise(context, x, other, {}, 1e-5, y, mean_rstd), Error);
  EXPECT_THROW(ops::normalise(context, x, gamma, {}, 0, y, mean_rstd), Error);
  EXPECT_THROW(ops::normalise(context, half, gamma, {}, 1e-5, y, mean_rstd), Error);
  EXPECT_THROW(ops::elementwise(context, ops::Elementwise::gelu, x, {}, narrow), Error);
  EXPECT_THROW(ops::gate(context, ops::Gate::silu, odd, narrow), Error);
  Tensor indices = Tensor::zeros({4}, DType::i32);
  indices.as<std::int32_t>()[2] = 9;
  Tensor tokens = Tensor::zeros({1, 4}, DType::i32), embedded = Tensor::zeros({1, 4, 6}, DType::f32);
  tokens.as<std::int32_t>()[2] = 9;
  EXPECT_THROW(ops::embed(context, x, tokens, {}, embedded), Error);
  tokens.as<std::int32_t>()[2] = 3;
  EXPECT_THROW(ops::embed(context, x, tokens, narrow, embedded), Error);
  EXPECT_NO_THROW(ops::embed(context, x, tokens, x, embedded));
  Tensor totals = Tensor::zeros({2}, DType::f64);
  EXPECT_THROW(ops::cross_entropy(context, x, indices, ops::Share::all, losses, losses, totals), Error);
}

}  // namespace
}  // namespace polyhead::test
