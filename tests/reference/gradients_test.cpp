// The oracle's gradients against finite differences of its own results, for the whole gradient catalogue in double.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "support/bits.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

using Numbers = reference::Array<double>;

// sum of d * y over what is finite: spoilt upstream gradients belong to rows that are not there.
double product(const ConstTensorView& d, const ConstTensorView& y) {
  const Numbers ds(d), ys(y);
  double sum = 0;
  for (std::size_t n = 0; n < ds.values().size(); ++n) {
    if (std::isfinite(ds.values()[n]) && std::isfinite(ys.values()[n])) sum += ds.values()[n] * ys.values()[n];
  }
  return sum;
}

// The function that upstream gradients are the gradient of.
double loss(const Materialised& m) {
  Attention results = make_results(m);
  reference::attend(m.q, m.k, m.v, m.options, m.wants, views_of(results));
  double sum = product(m.upstream.output, results.output);
  if (m.upstream.lse.present()) sum += product(m.upstream.lse, results.lse);
  if (m.upstream.weights.present()) sum += product(m.upstream.weights, results.weights);
  return sum;
}

// The derivative of the loss where `input` moves along `direction`: five points, error of fourth order.
double slope(const Materialised& m, const TensorView& input, const std::vector<double>& direction) {
  constexpr double kStep = 1e-3;
  const Numbers start(input);
  const auto loss_at = [&](double steps) {
    Numbers moved = start;
    for (std::size_t n = 0; n < direction.size(); ++n) moved.values()[n] += steps * kStep * direction[n];
    moved.store_to(input);
    return loss(m);
  };
  const double near = loss_at(1) - loss_at(-1), far = loss_at(2) - loss_at(-2);
  start.store_to(input);
  return (8 * near - far) / (12 * kStep);
}

// Random directions move every element at once, so that no wrong element can hide.
void expect_gradient(const char* what, const Materialised& m, const TensorView& input, const Numbers& gradient) {
  constexpr double kAllowed = 1e-8;
  ASSERT_EQ(Numbers(input).values().size(), gradient.values().size());
  for (const double x : gradient.values()) ASSERT_TRUE(std::isfinite(x)) << what;
  Random random(m.name);
  for (int trial = 0; trial < (kSanitized ? 1 : 2); ++trial) {
    std::vector<double> direction(gradient.values().size());
    double expected = 0, size = 1;
    for (std::size_t n = 0; n < direction.size(); ++n) {
      direction[n] = random.uniform() < 0.5 ? -1 : 1;
      expected += direction[n] * gradient.values()[n];
      size += std::abs(gradient.values()[n]);
    }
    EXPECT_NEAR(slope(m, input, direction), expected, kAllowed * size) << what << " of " << m.name;
  }
}

// dgates are per sequence; gates that sequences share get their sum.
Numbers gate_gradient(const Tensor& dgates, const Dims& shape) {
  const Numbers all(dgates);
  if (shape.rank() == 2) return all;
  Numbers sum(shape, 0);
  for (std::size_t n = 0; n < all.values().size(); ++n) sum.values()[n % sum.values().size()] += all.values()[n];
  return sum;
}

class ReferenceGradients : public ::testing::TestWithParam<Case> {};

TEST_P(ReferenceGradients, AreFiniteDifferences) {
  Case recipe = GetParam();
  recipe.dtype = DType::f64;
  if (recipe.bias_dtype) recipe.bias_dtype = DType::f64;
  recipe.wants = {};
  recipe.wants.lse = recipe.dlse;
  recipe.wants.weights = recipe.dweights;
  const Materialised m = materialise(recipe);
  AttentionGradients gradients = make_gradients(m);
  reference::attend_backward(m.q, m.k, m.v, m.options, m.upstream, m.gradient_wants, {}, views_of(gradients));
  expect_gradient("dq", m, m.q, Numbers(gradients.dq));
  expect_gradient("dk", m, m.k, Numbers(gradients.dk));
  expect_gradient("dv", m, m.v, Numbers(gradients.dv));
  if (m.gradient_wants.bias) expect_gradient("dbias", m, m.bias, Numbers(gradients.dbias));
  if (m.gradient_wants.sink_logit) expect_gradient("dsink_logit", m, m.sink_logit, Numbers(gradients.dsink_logit));
  if (m.gradient_wants.gates) {
    expect_gradient("dgates", m, m.gates, gate_gradient(gradients.dgates, m.gates.shape()));
  }
}

// Other types hold the same cases again; among logits of 1e4 a difference is all rounding.
std::vector<Case> of_one_type() {
  std::vector<Case> cases = gradient_catalogue();
  std::erase_if(cases, [](const Case& c) { return c.dtype != DType::f32 || c.logits != Logits::ordinary; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, ReferenceGradients, ::testing::ValuesIn(of_one_type()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace polyhead::test
