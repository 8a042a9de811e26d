// Products of matrices against plain loops: sizes around every edge of the tiling, every type and transposition, on
// every vector target.
#include "cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "core/team.h"
#include "cpu/kernels.h"
#include "cpu/targets.h"
#include "support/bits.h"
#include "support/compare.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One product: sizes, types, how the operands lie, and what is done beside multiplying.
struct Product {
  std::int64_t M = 1, N = 1, K = 1;
  DType dtype = DType::f32;             // of A and B
  std::optional<DType> output_dtype{};  // of C, if another
  bool a_transposed = false, b_transposed = false;
  std::int64_t gap = 0;  // elements between the rows of every matrix in memory
  bool bias = false;
  std::optional<DType> b_own_dtype{};  // of B, if another

  DType b_dtype() const { return b_own_dtype.value_or(dtype); }
  DType c_dtype() const { return output_dtype.value_or(dtype); }
  DType compute_dtype() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
};

std::ostream& operator<<(std::ostream& out, const Product& p) {
  return out << p.M << "x" << p.N << "x" << p.K << " " << name_of(p.dtype) << " by " << name_of(p.b_dtype()) << " to "
             << name_of(p.c_dtype()) << (p.a_transposed ? ", A transposed" : "")
             << (p.b_transposed ? ", B transposed" : "") << (p.gap > 0 ? ", gap" : "") << (p.bias ? ", bias" : "");
}

// [rows, columns], in memory as its transpose if so asked.
Placed matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool transposed, std::int64_t gap) {
  Tensor memory = Tensor::zeros(transposed ? Dims{columns, rows + gap} : Dims{rows, columns + gap}, dtype);
  const TensorView view = memory.view().slice(1, 0, transposed ? rows : columns);
  return {std::move(memory), transposed ? view.transpose(0, 1) : view};
}

struct Made {
  explicit Made(const Product& product)
      : p(product),
        a(matrix(p.M, p.K, p.dtype, p.a_transposed, p.gap)),
        b(matrix(p.K, p.N, p.b_dtype(), p.b_transposed, p.gap)),
        before(matrix(p.M, p.N, p.c_dtype(), false, p.gap)),
        bias(Tensor::zeros({p.N}, p.compute_dtype())) {
    Random random("gemm");
    for (const TensorView& view : {a.view, b.view, before.view, bias.view()}) fill_normal(view, random);
  }

  // C by the kernel, as it lies in memory with its gaps.
  Tensor run(Team& team, const kernels::PackedMatrix* packed = nullptr) const {
    Tensor c = Tensor::empty(before.memory.shape(), p.c_dtype());
    std::memcpy(c.view().data(), before.memory.view().data(),
                static_cast<std::size_t>(c.view().count()) * size_of(c.dtype()));
    cpu::gemm(team, problem(packed, c));
    return c;
  }
  kernels::GemmProblem problem(const kernels::PackedMatrix* packed, const TensorView& c) const {
    kernels::GemmProblem problem;
    problem.a = a.view;
    problem.b = packed == nullptr ? b.view : TensorView();
    problem.packed = packed;
    if (p.bias) problem.bias = bias;
    problem.c = c.slice(1, 0, p.N);
    return problem;
  }

  Product p;
  Placed a, b, before;
  Tensor bias;
};

// C by one loop in Real.
template <class Real>
Tensor by_loops(const Made& made, DType dtype) {
  const reference::Array<Real> a(made.a.view), b(made.b.view), bias(made.bias);
  reference::Array<Real> c({made.p.M, made.p.N}, 0);
  for (std::int64_t i = 0; i < made.p.M; ++i) {
    for (std::int64_t j = 0; j < made.p.N; ++j) {
      Real sum = 0;
      for (std::int64_t k = 0; k < made.p.K; ++k) sum += a(i, k) * b(k, j);
      if (made.p.bias) sum += bias(j);
      c(i, j) = sum;
    }
  }
  Tensor result = Tensor::empty({made.p.M, made.p.N}, dtype);
  c.store_to(result);
  return result;
}

void expect_right(const Made& made) {
  const DType dtype = made.p.c_dtype();
  const Tensor exact = by_loops<long double>(made, DType::f64);
  const Tensor plain = made.p.dtype == DType::f64 ? by_loops<double>(made, dtype) : by_loops<float>(made, dtype);
  const RestoreTarget restore;
  Team team(1);
  for (const std::string& target : targets_for(::testing::PrintToString(made.p))) {
    cpu::use_target(target);
    Tensor c = made.run(team);
    const ConstTensorView got = c.view().slice(1, 0, made.p.N);
    ASSERT_TRUE(near_enough("C", got, exact, plain)) << made.p << " on " << target;
    // Between the rows nothing was written.
    const reference::Array<double> gaps(c.view().slice(1, made.p.N, made.p.N + made.p.gap));
    for (const double value : gaps.values()) ASSERT_EQ(value, 0) << made.p << " on " << target;
    const kernels::PackedMatrix packed = cpu::pack(team, made.b.view, kernels::Products::exact);
    ASSERT_TRUE(same_bits("C", c, made.run(team, &packed))) << made.p << " on " << target;
  }
}

// By a B that was packed for coarse products; what is rounded is so already, so that nothing is lost.
void expect_right_if_coarse(const Product& product) {
  Made made(product);
  const RestoreTarget restore;
  Team team(2);
  Tensor halves[2];
  for (const int n : {0, 1}) {
    const TensorView& operand = n == 0 ? made.a.view : made.b.view;
    halves[n] = Tensor::empty(operand.shape(), DType::bf16);
    cpu::copy(team, operand, halves[n]);
    cpu::copy(team, halves[n], operand);
  }
  const Tensor exact = by_loops<long double>(made, DType::f64), plain = by_loops<float>(made, DType::f32);
  for (const std::string& target : targets_for(::testing::PrintToString(product))) {
    cpu::use_target(target);
    const kernels::PackedMatrix packed = cpu::pack(team, made.b.view, kernels::Products::coarse);
    ASSERT_EQ(packed.strips.dtype(), DType::bf16);
    Tensor c = Tensor::zeros(made.before.memory.shape(), DType::f32);
    kernels::GemmProblem problem = made.problem(&packed, c);
    if (!packed.rounds) problem.a = halves[0];
    cpu::gemm(team, problem);
    ASSERT_TRUE(near_enough("C", problem.c, exact, plain)) << product << " on " << target;
    Tensor by_one = Tensor::zeros(c.shape(), DType::f32);
    problem.c = by_one.view().slice(1, 0, product.N);
    Team one(1);
    cpu::gemm(one, problem);
    ASSERT_TRUE(same_bits("C", c, by_one)) << product << " on " << target;
    const reference::Array<double> gaps(c.view().slice(1, product.N, product.N + product.gap));
    for (const double value : gaps.values()) ASSERT_EQ(value, 0) << product << " on " << target;
  }
}

TEST(CpuGemm, CoarseProductsOfNumbersThatFit) {
  const std::int64_t sizes[] = {0, 1, 5, 12, 13, 16, 17, 31, 32, 33, 97};
  for (const std::int64_t M : sizes) {
    for (const std::int64_t N : sizes) {
      for (const std::int64_t K : sizes) {
        expect_right_if_coarse({.M = M, .N = N, .K = K, .b_transposed = true, .gap = 3, .bias = M % 2 == 1});
      }
    }
  }
  expect_right_if_coarse({.M = 500, .N = 65, .K = 577, .b_transposed = true});  // several blocks and parts
  expect_right_if_coarse({.M = 5, .N = 33, .K = 40});                           // B as it lies
}

// C of coarse products by operands that are not packed, and of exact ones by the same operands in bf16.
void expect_rounded(const Product& product) {
  const Made made(product);
  const RestoreTarget restore;
  for (const std::string& target : targets_for(::testing::PrintToString(product))) {
    cpu::use_target(target);
    Team team(3), one(1);
    const auto c_of = [&](Team& by, const ConstTensorView& a, const ConstTensorView& b, kernels::Products products) {
      Tensor c = Tensor::zeros({product.M, product.N}, DType::f32);
      kernels::GemmProblem problem = made.problem(nullptr, c);
      problem.a = a;
      problem.b = b;
      cpu::gemm(by, problem, products);
      return c;
    };
    Tensor halves[2];
    ConstTensorView rounded[2];
    for (const int n : {0, 1}) {
      const Placed& operand = n == 0 ? made.a : made.b;
      const bool turned = n == 0 ? product.a_transposed : product.b_transposed;
      const ConstTensorView lies = turned ? operand.view.transpose(0, 1) : operand.view;
      halves[n] = Tensor::empty(lies.shape(), DType::bf16);
      cpu::copy(one, lies, halves[n]);
      rounded[n] = turned ? halves[n].view().transpose(0, 1) : halves[n].view();
    }
    using enum kernels::Products;
    const Tensor found = c_of(team, made.a.view, made.b.view, coarse);
    const Tensor expected =
        cpu::multiplies_pairs() ? c_of(one, rounded[0], rounded[1], exact) : c_of(one, made.a.view, made.b.view, exact);
    ASSERT_TRUE(same_bits("C", expected, found)) << product << " on " << target;
  }
}

// As in a layer forward, and for the gradients of its inputs and weights.
TEST(CpuGemm, CoarseProductsRoundOperandsOnce) {
  for (const std::int64_t M : {1, 13, 97}) {
    for (const std::int64_t K : {1, 33, 600}) {
      expect_rounded({.M = M, .N = 70, .K = K, .b_transposed = true, .gap = 3, .bias = true});
      expect_rounded({.M = M, .N = 70, .K = K});
      expect_rounded({.M = M, .N = 70, .K = K, .a_transposed = true});
    }
  }
}

TEST(CpuGemm, SizesAroundEveryEdge) {
  const std::int64_t sizes[] = {0, 1, 5, 12, 13, 31, 32, 33, 97};
  for (const std::int64_t M : sizes) {
    for (const std::int64_t N : sizes) {
      for (const std::int64_t K : sizes) expect_right(Made({.M = M, .N = N, .K = K, .bias = true}));
    }
  }
}

// Several blocks of rows, parts of strips and slices of K.
TEST(CpuGemm, SeveralBlocks) {
  for (const std::int64_t K : {255, 256, 257, 512, 1100}) {
    expect_right(Made({.M = 97, .N = 65, .K = K}));
    expect_right(Made({.M = 25, .N = 70, .K = K}));
    expect_right(Made({.M = 25, .N = 70, .K = K, .dtype = DType::bf16, .bias = true}));
  }
  expect_right(Made({.M = 200, .N = 33, .K = 40}));
  expect_right(Made({.M = 5, .N = 1030, .K = 40}));
  expect_right(Made({.M = 100, .N = 1030, .K = 17, .dtype = DType::f16}));
  expect_right(Made({.M = 55, .N = 5, .K = 9000}));
  for (const std::int64_t K : {511, 513, 1025}) {  // in pairs: slices that end in half a pair
    expect_right(Made({.M = 30, .N = 70, .K = K, .dtype = DType::bf16, .output_dtype = DType::f32, .bias = true}));
    expect_right(Made({.M = 3, .N = 70, .K = K, .dtype = DType::bf16, .a_transposed = true}));
    expect_right(Made({.M = 30, .N = 70, .K = K, .b_own_dtype = DType::bf16}));
    expect_right(Made({.M = 3, .N = 70, .K = K, .b_own_dtype = DType::bf16}));
  }
  expect_right(Made({.M = 100, .N = 40, .K = 5000, .a_transposed = true}));
}

// More columns than are packed at a time.
TEST(CpuGemm, LargeB) {
  const Made made({.M = 3, .N = 2100, .K = 4200, .bias = true});
  Team team(2);
  const kernels::PackedMatrix packed = cpu::pack(team, made.b.view, kernels::Products::exact);
  EXPECT_TRUE(same_bits("C", made.run(team), made.run(team, &packed)));
}

// B keeps its 16 bits when it is packed: widened in registers for few rows, beside them for more.
TEST(CpuGemm, HalvesBesideF32) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::int64_t M : {1, 2, 3, 4, 5, 13, 40, 97}) {
      for (const std::int64_t K : {1, 63, 64, 65, 300}) {
        Product p{.M = M, .N = 45, .K = K, .b_transposed = M % 2 == 1, .bias = true};
        p.b_own_dtype = dtype;
        expect_right(Made(p));
      }
    }
  }
}

TEST(CpuGemm, EveryTypeAndTransposition) {
  struct Types {
    DType operands, output;
  };
  const Types every[] = {{DType::f32, DType::f32},  {DType::f64, DType::f64},   {DType::f16, DType::f16},
                         {DType::f16, DType::f32},  {DType::bf16, DType::bf16}, {DType::bf16, DType::f32},
                         {DType::f32, DType::bf16}, {DType::f32, DType::f16}};
  for (const Types& types : every) {
    for (int bits = 0; bits < 16; ++bits) {
      Product p{.M = 37, .N = 45, .K = 77, .dtype = types.operands, .output_dtype = types.output};
      p.a_transposed = (bits & 1) != 0;
      p.b_transposed = (bits & 2) != 0;
      p.gap = (bits & 4) != 0 ? 3 : 0;
      p.bias = (bits & 8) != 0;
      expect_right(Made(p));
    }
  }
}

TEST(CpuGemm, HugeBiasCostsNoPrecision) {
  Made made({.M = 13, .N = 40, .K = 600, .bias = true});
  fill_with(made.bias, [] { return 1e6; });
  expect_right(made);
}

TEST(CpuGemm, NothingToContractGivesTheBias) {
  Team team(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    for (const bool bias : {false, true}) {
      const Made made({.M = 5, .N = 35, .K = 0, .dtype = dtype, .bias = bias});
      const Tensor c = made.run(team);
      const reference::Array<double> got(c.view());
      const reference::Array<float> expected(made.bias.view());
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t j = 0; j < 35; ++j) {
          const double at_j =
              dtype == DType::f16 ? static_cast<float>(float16(expected(j))) : reference::load(made.bias.view(), j);
          ASSERT_EQ(got(i, j), bias ? at_j : 0.0);
        }
      }
    }
  }
}

// What is not finite reaches its row or column and nothing else.
TEST(CpuGemm, PassesOnWhatIsNotFinite) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Made made({.M = 30, .N = 50, .K = 20, .dtype = dtype});
    const auto put = [](const TensorView& view, std::int64_t i, std::int64_t j, double value) {
      reference::store(view, i * view.stride(0) + j * view.stride(1), value);
    };
    put(made.a.view, 3, 7, std::nan(""));
    put(made.a.view, 28, 19, kInfinity);
    put(made.b.view, 0, 49, -kInfinity);
    put(made.b.view, 5, 11, std::nan(""));
    expect_right(made);
  }
}

// Enough work for all of them, with edges; the last ones split B's columns too.
TEST(CpuGemm, IsTheSameBitsForAnyNumberOfThreads) {
  const Product products[] = {
      {.M = 301, .N = 205, .K = 700, .bias = true},
      {.M = 128, .N = 128, .K = 2048, .a_transposed = true},
      {.M = 333, .N = 111, .K = 600, .dtype = DType::bf16, .b_transposed = true},
      {.M = 301, .N = 205, .K = 1401, .dtype = DType::bf16, .output_dtype = DType::f32, .a_transposed = true},
      {.M = 200, .N = 99, .K = 555, .dtype = DType::f64},
      {.M = 1, .N = 3000, .K = 1500, .b_transposed = true},
      {.M = 2, .N = 3000, .K = 1500, .b_transposed = true, .b_own_dtype = DType::bf16},
      {.M = 7, .N = 700, .K = 1025},
      {.M = 60, .N = 90, .K = 4500},
  };
  for (const Product& p : products) {
    const Made made(p);
    Team one(1);
    const Tensor expected = made.run(one);
    for (int threads = 2; threads <= 8; threads += kSanitized ? 3 : 1) {
      Team team(threads);
      const kernels::PackedMatrix packed = cpu::pack(team, made.b.view, kernels::Products::exact);
      for (int repeat = 0; repeat < (kSanitized ? 1 : 3); ++repeat) {
        ASSERT_TRUE(same_bits("C", expected, made.run(team))) << p << ", " << threads << " threads";
        ASSERT_TRUE(same_bits("C", expected, made.run(team, &packed))) << p << ", " << threads << " threads";
      }
    }
  }
}

TEST(CpuGemm, RefusesWhatWasPackedForAnotherTarget) {
  const Made made({.M = 3, .N = 4, .K = 5});
  Team team(1);
  kernels::PackedMatrix packed = cpu::pack(team, made.b.view, kernels::Products::exact);
  EXPECT_NO_THROW(made.run(team, &packed));
  packed.target *= 2;
  EXPECT_THROW(made.run(team, &packed), Error);
}

// The sum of rows is a product with a row of ones.
Made sum_of_rows(std::int64_t rows, std::int64_t columns, DType dtype) {
  Product p{.M = 1, .N = columns, .K = rows, .dtype = dtype};
  p.output_dtype = p.compute_dtype();
  Made made(p);
  fill_with(made.a.view, [] { return 1; });
  return made;
}

Tensor column_sums(int threads, const Made& made) {
  Team team(threads);
  Tensor sums = Tensor::empty({1, made.p.N}, made.p.c_dtype());
  reference::Array<double>(made.before.view).store_to(sums);
  const TensorView all(sums.view().data(), sums.dtype(), {made.p.N}, {1});
  cpu::column_sums(team, made.b.view, all);
  return sums;
}

TEST(CpuColumnSums, FollowTheRuleOnEveryTarget) {
  const RestoreTarget restore;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (int n = 0; n < 30; ++n) {
      const std::int64_t rows[] = {0, 1, 63, 64, 65, 500}, columns[] = {0, 1, 33, 128, 300};
      const Made made = sum_of_rows(rows[n % 6], columns[n / 6 % 5], dtype);
      const DType sums_dtype = made.p.c_dtype();
      const Tensor exact = by_loops<long double>(made, DType::f64);
      const Tensor plain = dtype == DType::f64 ? by_loops<double>(made, sums_dtype) : by_loops<float>(made, sums_dtype);
      for (const std::string& target : targets_for(::testing::PrintToString(made.p))) {
        cpu::use_target(target);
        const Tensor sums = column_sums(1, made);
        EXPECT_TRUE(near_enough("sums", sums, exact, plain)) << made.p << " on " << target;
        EXPECT_TRUE(same_bits("sums", sums, column_sums(3, made))) << made.p << " on " << target;
      }
    }
  }
}

}  // namespace
}  // namespace polyhead::test
