// linear and its gradients against plain loops, for every type and for rows that do not lie together.
#include "polyhead/linear.h"

#include <gtest/gtest.h>

#include "reference/multihead_in.h"
#include "support/bits.h"
#include "support/compare.h"
#include "support/numbers.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

template <class Numbers>
struct Plain {
  Tensor y, dx, dweight, dbias;
  Plain(const ConstTensorView& x, const ConstTensorView& w, const ConstTensorView& b, const ConstTensorView& dy,
        DType dtype)
      : y(Tensor::zeros(dy.shape(), dtype)),
        dx(Tensor::zeros(x.shape(), dtype)),
        dweight(Tensor::zeros(w.shape(), dtype)),
        dbias(Tensor::zeros(b.shape(), dtype)) {
    reference::linear_in<Numbers>(x, w, b, y);
    reference::linear_backward_in<Numbers>(x, w, dy, dx, dweight, dbias);
  }
};

template <class Numbers>
void expect_right(DType dtype) {
  Random random("linear");
  const auto make = [&](const Dims& shape) {
    Tensor tensor = Tensor::empty(shape, dtype);
    fill_normal(tensor, random);
    return tensor;
  };
  const Tensor memory = make({3, 5, 2, 19}), w = make({23, 19}), b = make({23}), dy = make({3, 5, 23});
  const ConstTensorView x =
      memory.view().transpose(1, 2).slice(1, 1, 2).transpose(1, 2);  // [3,5,1,19]: every other row
  const ConstTensorView rows(x.data(), dtype, {3, 5, 19}, {x.stride(0), x.stride(1), 1});
  const Plain<reference::Doubles> exact(rows, w, b, dy, DType::f64);
  const Plain<Numbers> plain(rows, w, b, dy, dtype);
  Context context(2);
  const Tensor y = linear(context, rows, w, b);
  const LinearGradients d = linear_backward(context, rows, w, dy);
  EXPECT_TRUE(near_enough("y", y, exact.y, plain.y));
  EXPECT_TRUE(near_enough("dx", d.dx, exact.dx, plain.dx));
  EXPECT_TRUE(near_enough("dweight", d.dweight, exact.dweight, plain.dweight));
  EXPECT_TRUE(near_enough("dbias", d.dbias, exact.dbias, plain.dbias));
}

TEST(Linear, IsWhatPlainLoopsSay) {
  expect_right<Rounded<float, float>>(DType::f32);
  expect_right<Rounded<float, float16>>(DType::f16);
  expect_right<Rounded<float, bfloat16>>(DType::bf16);
}

// A weight of 16 bits beside f32 gives the bits of the same numbers in f32.
TEST(Linear, WidensWeightsOf16Bits) {
  Context context(2);
  Random random("halves");
  Tensor x = Tensor::empty({2, 3, 300}, DType::f32), b = Tensor::empty({37}, DType::f32),
         dy = Tensor::empty({2, 3, 37}, DType::f32);
  for (Tensor* tensor : {&x, &b, &dy}) fill_normal(*tensor, random);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Tensor half = Tensor::empty({37, 300}, dtype), wide = Tensor::empty({37, 300}, DType::f32);
    fill_normal(half, random);
    copy(context, half, wide);
    EXPECT_TRUE(same_bits("y", linear(context, x, half, b), linear(context, x, wide, b)));
    const LinearGradients d = linear_backward(context, x, half, dy), e = linear_backward(context, x, wide, dy);
    EXPECT_TRUE(same_bits("dx", d.dx, e.dx));
    EXPECT_EQ(d.dweight.dtype(), DType::f32);
    EXPECT_TRUE(same_bits("dweight", d.dweight, e.dweight));
    EXPECT_TRUE(same_bits("dbias", d.dbias, e.dbias));
  }
}

// Sums of 16-bit products that are left in f32 are those of the same numbers in f32. Whole numbers come to the same
// bits in any order.
TEST(Linear, LeavesSumsInF32) {
  Context context(2);
  Random random("sums");
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto pair = [&](const Dims& shape) {
      Tensor half = Tensor::empty(shape, dtype), wide = Tensor::empty(shape, DType::f32);
      fill_with(half, [&] { return static_cast<double>(random.below(17) - 8); });
      copy(context, half, wide);
      return std::pair(std::move(half), std::move(wide));
    };
    const auto [x, wide_x] = pair({5, 300});
    const auto [w, wide_w] = pair({37, 300});
    const auto [dy, wide_dy] = pair({5, 37});
    const Tensor b = pair({37}).second;
    Tensor y = Tensor::empty({5, 37}, DType::f32), dweight = Tensor::empty({37, 300}, DType::f32),
           dbias = Tensor::empty({37}, DType::f32);
    linear_into(context, x, w, b, y);
    linear_backward_into(context, x, w, dy, {.dweight = dweight, .dbias = dbias});
    EXPECT_TRUE(same_bits("y", y, linear(context, wide_x, wide_w, b)));
    const LinearGradients wide = linear_backward(context, wide_x, wide_w, wide_dy);
    EXPECT_TRUE(same_bits("dweight", dweight, wide.dweight));
    EXPECT_TRUE(same_bits("dbias", dbias, wide.dbias));
    Tensor dx = Tensor::empty({5, 300}, DType::f32);
    EXPECT_THROW(linear_backward_into(context, x, w, dy, {.dx = dx}), Error);
  }
}

// Rows that a size of 1 stands between, and a weight of one column from a wider one.
TEST(Linear, RowsOfAnySpacing) {
  Context context(1);
  Random random("rows");
  Tensor memory = Tensor::empty({2, 1, 10, 4}, DType::f32), w = Tensor::empty({3, 4}, DType::f32),
         table = Tensor::empty({3, 5}, DType::f32), column = Tensor::empty({7, 1}, DType::f32);
  for (Tensor* tensor : {&memory, &w, &table, &column}) fill_normal(*tensor, random);
  const ConstTensorView x = memory.view().slice(2, 0, 3);
  const Tensor y = linear(context, x, w);
  Tensor expected = Tensor::zeros({2, 1, 3, 3}, DType::f64);
  reference::linear_in<reference::Doubles>(x, w, {}, expected);
  for (std::int64_t n = 0; n < 18; ++n) EXPECT_NEAR(y.as<float>()[n], expected.as<double>()[n], 1e-5);
  const Tensor z = linear(context, column, table.view().slice(1, 2, 3));
  for (std::int64_t n = 0; n < 21; ++n) {
    EXPECT_NEAR(z.as<float>()[n], column.as<float>()[n / 3] * table.as<float>()[n % 3 * 5 + 2], 1e-6);
  }
}

TEST(Linear, RefusesWhatDoesNotFit) {
  Context context(1);
  const Tensor x = Tensor::zeros({4, 6}, DType::f32), w = Tensor::zeros({5, 6}, DType::f32);
  EXPECT_THROW(linear(context, x, Tensor::zeros({5, 7}, DType::f32)), Error);
  EXPECT_THROW(linear(context, x, Tensor::zeros({5, 6}, DType::f64)), Error);
  EXPECT_THROW(linear(context, x, Tensor::zeros({5, 6}, DType::f16), Tensor::zeros({5}, DType::f16)), Error);
  EXPECT_THROW(linear(context, Tensor::zeros({4, 6}, DType::f16), w), Error);
  EXPECT_THROW(linear(context, x, w, Tensor::zeros({6}, DType::f32)), Error);
  EXPECT_THROW(linear_backward(context, x, w, Tensor::zeros({4, 6}, DType::f32)), Error);
  Tensor y = Tensor::zeros({4, 4}, DType::f32);
  EXPECT_THROW(linear_into(context, x, w, {}, y), Error);
}

}  // namespace
}  // namespace polyhead::test
