// AdamW and clipping, number by number, beside the formulas as torch has them.
#include "train/optimiser.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/random.h"

namespace polyhead::train {
namespace {

// Up in a line, down along a cosine to a tenth, and there it stays.
TEST(Schedule, HasTheseValues) {
  const Schedule schedule{.peak = 2, .warmup = 4, .steps = 12};
  EXPECT_NEAR(schedule.rate(1), 0.5, 1e-12);
  EXPECT_NEAR(schedule.rate(3), 1.5, 1e-12);
  EXPECT_NEAR(schedule.rate(4), 2, 1e-12) << "the highest";
  EXPECT_NEAR(schedule.rate(6), 2 * (0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5))), 1e-12) << "a quarter of the way";
  EXPECT_NEAR(schedule.rate(8), 2 * 0.55, 1e-12) << "half of it";
  EXPECT_NEAR(schedule.rate(12), 0.2, 1e-12) << "a tenth at the last step";
  EXPECT_NEAR(schedule.rate(13), 0.2, 1e-12);
  const Schedule at_once{.peak = 1, .warmup = 0, .steps = 4, .floor = 0};
  EXPECT_NEAR(at_once.rate(1), 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(at_once.rate(2), 0.5, 1e-12);
  EXPECT_NEAR(at_once.rate(4), 0, 1e-12);
  const Schedule short_one{.peak = 1, .warmup = 10, .steps = 5};  // it ends before it is up
  EXPECT_NEAR(short_one.rate(5), 0.5, 1e-12);
}

constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8, kDecay = 0.1;

// A parameter and what a backward pass may have left for it.
struct Made {
  autograd::Parameter parameter;
  autograd::Gradients gradients;

  Made(const Dims& shape, DType dtype, std::uint64_t seed) : parameter{"p", Tensor::empty(shape, dtype)} {
    test::Random random(seed);
    test::fill_normal(parameter.value, random);
    test::fill_normal(gradient(), random, 0.1);
  }
  Tensor& gradient() { return gradients.of(parameter); }
};

double number(const Tensor& tensor, std::int64_t n) {
  return tensor.dtype() == DType::f64 ? tensor.as<double>()[n] : static_cast<double>(tensor.as<float>()[n]);
}

// One weight after steps along one gradient.
double expected(double weight, double gradient, double decay, int steps) {
  double m = 0, v = 0;
  for (int step = 1; step <= steps; ++step) {
    weight -= kRate * decay * weight;
    m = kBeta1 * m + (1 - kBeta1) * gradient;
    v = kBeta2 * v + (1 - kBeta2) * gradient * gradient;
    const double c1 = 1 - std::pow(kBeta1, step), c2 = 1 - std::pow(kBeta2, step);
    weight -= kRate / c1 * m / (std::sqrt(v) / std::sqrt(c2) + kEpsilon);
  }
  return weight;
}

double norm_of(const Tensor& gradient) {
  double squares = 0;
  for (std::int64_t n = 0; n < count_of(gradient.shape()); ++n) squares += std::pow(number(gradient, n), 2);
  return std::sqrt(squares);
}

class OptimiserIn : public testing::TestWithParam<DType> {
 protected:
  // Largest error of a weight after three steps, relative to the rate.
  double error_after_three_steps(const Dims& shape, double clip) const {
    Made made(shape, GetParam(), 1), before(shape, GetParam(), 1);
    Context context(2);
    Optimiser optimiser({&made.parameter}, {.rule = {.beta2 = kBeta2, .decay = kDecay}, .clip = clip});
    for (int step = 0; step < 3; ++step) {
      optimiser.step(context, made.gradients, optimiser.norm(context, made.gradients), kRate);
    }
    const double factor = clip > 0 ? std::min(1.0, clip / (norm_of(before.gradient()) + 1e-6)) : 1;
    double most = 0;
    for (std::int64_t n = 0; n < count_of(shape); ++n) {
      const double wanted = expected(number(before.parameter.value, n), factor * number(before.gradient(), n),
                                     shape.rank() > 1 ? kDecay : 0, 3);
      most = std::max(most, std::abs(number(made.parameter.value, n) - wanted) / kRate);
    }
    return most;
  }
  // Weights are about 1 and the steps about the rate: a few roundings of the former, as seen from the latter.
  double allowed() const { return (GetParam() == DType::f64 ? 0x1p-52 : 0x1p-23) * 8 / kRate; }
};
INSTANTIATE_TEST_SUITE_P(Types, OptimiserIn, testing::Values(DType::f32, DType::f64),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(OptimiserIn, DecaysMatrices) { EXPECT_LE(error_after_three_steps({7, 5}, 0), allowed()); }
TEST_P(OptimiserIn, DecaysNoVectors) { EXPECT_LE(error_after_three_steps({35}, 0), allowed()); }
TEST_P(OptimiserIn, ClipsAsTorchDoes) {
  EXPECT_LE(error_after_three_steps({7, 5}, 1e-4), allowed());
  EXPECT_EQ(error_after_three_steps({7, 5}, 1e9), error_after_three_steps({7, 5}, 0));
}

TEST(Optimiser, TakesNoStepWithoutANorm) {
  Made made({7, 5}, DType::f32, 3), before({7, 5}, DType::f32, 3);
  Context context(1);
  Optimiser optimiser({&made.parameter}, {.rule = {.beta2 = kBeta2}, .clip = 1});
  for (const double norm : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(optimiser.step(context, made.gradients, norm, kRate), Error);
  }
  EXPECT_EQ(optimiser.steps_taken(), 0);
  for (std::int64_t n = 0; n < 35; ++n) {
    EXPECT_EQ(number(made.parameter.value, n), number(before.parameter.value, n));
    EXPECT_EQ(number(optimiser.moments()[0].first, n), 0);
  }
}

// 1 - beta has to keep its digits though beta is near 1: after one step v is (1 - beta2) g^2.
TEST(Optimiser, MomentsKeepTheirDigits) {
  Made made({64}, DType::f32, 2);
  Context context(1);
  Optimiser optimiser({&made.parameter}, {.rule = {.beta2 = kBeta2}, .clip = 0});
  optimiser.step(context, made.gradients, optimiser.norm(context, made.gradients), kRate);
  for (std::int64_t n = 0; n < 64; ++n) {
    const double g = number(made.gradient(), n), v = number(optimiser.moments()[0].second, n);
    EXPECT_NEAR(v, (1 - kBeta2) * g * g, 4 * 0x1p-24 * v);
  }
}

}  // namespace
}  // namespace polyhead::train
