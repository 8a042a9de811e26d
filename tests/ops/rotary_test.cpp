// Rotary positions against their definition, and what they are for: q . k depends on the distance alone.
#include "polyhead/rotary.h"

#include <gtest/gtest.h>

#include <limits>

#include "reference/rotary.h"
#include "support/compare.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

Tensor places(const Dims& shape) {
  Tensor tensor = Tensor::empty(shape, DType::i32);
  Random random("places");
  fill_with(tensor, [&] { return static_cast<double>(random.below(5000)); });
  return tensor;
}

// 1, 2.5, 4 ...
Tensor factors_of(std::int64_t pairs) {
  Tensor tensor = Tensor::empty({pairs}, DType::f32);
  for (std::int64_t c = 0; c < pairs; ++c) tensor.as<float>()[c] = 1 + 1.5f * static_cast<float>(c);
  return tensor;
}

TEST(Rotary, FollowsItsDefinition) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
      for (const std::int64_t dim : {0, 6}) {
        for (const Dims& shape : {Dims{}, Dims{7}, Dims{2, 7}}) {
          const Tensor x = normal({2, 3, 7, 10}, "x", dtype);
          const Tensor where = shape.rank() == 0 ? Tensor() : places(shape);
          Rotary rotary{.layout = layout, .dim = dim, .base = 500};
          if (shape.rank() == 1) rotary.scaling = {.factor = 3};
          if (shape.rank() == 2) rotary.scaling = {.factor = 8, .slow = 0.5, .fast = 40, .context = 300};
          const Tensor factors = factors_of(dim == 0 ? 5 : dim / 2);
          if (shape.rank() > 0) rotary.factors = factors;
          Tensor exact = Tensor::empty(x.shape(), DType::f64), plain = Tensor::empty(x.shape(), dtype);
          reference::rotate(x, rotary, where, exact);
          reference::rotate(x, rotary, where, plain);
          Context context(2);
          const Tensor y = rotate(context, x, rotary, where);
          EXPECT_TRUE(near_enough("y", y, exact, plain));
          Tensor in_place = normal({2, 3, 7, 10}, "x", dtype);
          rotate_into(context, in_place, rotary, where, in_place);
          EXPECT_TRUE(near_enough("in place", in_place, exact, plain));
        }
      }
    }
  }
}

// The turn is orthogonal: its transpose, which gradients take, undoes it.
TEST(Rotary, BackwardUndoesForward) {
  Context context(1);
  const Tensor x = normal({2, 3, 5, 8}, "x", DType::f64);
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    const Tensor there = rotate(context, x, {.layout = layout}),
                 back = rotate_backward(context, there, {.layout = layout});
    for (std::int64_t n = 0; n < count_of(x.shape()); ++n) EXPECT_NEAR(back.as<double>()[n], x.as<double>()[n], 1e-14);
  }
}

TEST(Rotary, ScoresDependOnTheDistanceAlone) {
  Context context(1);
  const Tensor q = normal({1, 1, 1, 16}, "q", DType::f64), k = normal({1, 1, 1, 16}, "k", DType::f64);
  const auto score = [&](std::int32_t at_q, std::int32_t at_k) {
    Tensor pq = Tensor::empty({1}, DType::i32), pk = Tensor::empty({1}, DType::i32);
    pq.as<std::int32_t>()[0] = at_q;
    pk.as<std::int32_t>()[0] = at_k;
    const Tensor a = rotate(context, q, {}, pq), b = rotate(context, k, {}, pk);
    double sum = 0;
    for (int c = 0; c < 16; ++c) sum += a.as<double>()[c] * b.as<double>()[c];
    return sum;
  };
  EXPECT_NEAR(score(10, 3), score(1007, 1000), 1e-9);
  EXPECT_GT(std::abs(score(10, 3) - score(10, 4)), 1e-3);
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  Context context(1);
  const Tensor x = normal({2, 3, 5, 8}, "x", DType::f32), flat = normal({5, 8}, "x", DType::f32);
  EXPECT_THROW(rotate(context, flat, {}), Error);
  EXPECT_THROW(rotate(context, x, {.dim = 3}), Error);
  EXPECT_THROW(rotate(context, x, {.dim = 10}), Error);
  // Each number at its limit and beyond.
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  for (const RotaryScaling& scaling : {RotaryScaling{.factor = 1}, {.slow = 1e-9}, {.fast = 1.001}, {.context = 0}}) {
    EXPECT_NO_THROW(rotate(context, x, {.scaling = scaling}));
  }
  for (const double wrong : {0.999, 0.0, -2.0, kNan, kInf}) {
    EXPECT_THROW(rotate(context, x, {.scaling = {.factor = wrong}}), Error) << wrong;
  }
  for (const double wrong : {0.0, -1.0, 4.0, 5.0, kNan, kInf}) {
    EXPECT_THROW(rotate(context, x, {.scaling = {.slow = wrong}}), Error) << wrong;
  }
  for (const double wrong : {1.0, 0.5, -4.0, kNan, kInf}) {
    EXPECT_THROW(rotate(context, x, {.scaling = {.fast = wrong}}), Error) << wrong;
  }
  for (const double wrong : {0.0, -1.0, kNan, kInf}) {
    EXPECT_THROW(rotate(context, x, {.base = wrong}), Error) << wrong;
  }
  EXPECT_THROW(rotate(context, x, {.scaling = {.context = -1}}), Error);
  const Tensor three = factors_of(3), wrong = Tensor::zeros({4}, DType::f64);
  EXPECT_THROW(rotate(context, x, {.factors = three}), Error);
  EXPECT_THROW(rotate(context, x, {.factors = wrong}), Error);
  EXPECT_THROW(rotate(context, x, {}, places({4})), Error);
  EXPECT_THROW(rotate(context, x, {}, normal({5}, "p", DType::f32)), Error);
  Tensor half = Tensor::zeros({2, 3, 5, 8}, DType::f16);
  EXPECT_THROW(rotate_into(context, x, {}, {}, half), Error);
}

}  // namespace
}  // namespace polyhead::test
