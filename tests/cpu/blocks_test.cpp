// Quantised blocks: products and lookups of a matrix of blocks have the bits of those of its numbers in f32, for every
// type, on every vector target. What the numbers are is core's to say, and tests/io compares it with the gguf package.
#include "core/blocks.h"

#include <gtest/gtest.h>

#include "core/team.h"
#include "cpu/kernels.h"
#include "cpu/targets.h"
#include "support/bits.h"
#include "support/blocks.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

// C = A B + bias of an A [M,..] and a weight [N,K] in blocks, by itself and widened, with as many threads as given. B
// is W^T, or W itself, as for the gradient of inputs.
class Products {
 public:
  Products(std::int64_t M, const Tensor& weight, bool transposed, Random& random)
      : weight_(weight), wide_(widened_blocks(weight)), transposed_(transposed) {
    const ConstTensorView b = b_of(wide_);
    a_ = Tensor::empty({M, b.shape(0)}, DType::f32);
    bias_ = Tensor::empty({b.shape(1)}, DType::f32);
    fill_normal(a_, random);
    fill_normal(bias_, random);
  }

  Tensor by_blocks(Team& team) const { return run(team, b_of(weight_)); }
  Tensor widened(Team& team) const { return run(team, b_of(wide_)); }

 private:
  ConstTensorView b_of(const Tensor& weight) const {
    return transposed_ ? weight.view().transpose(0, 1) : weight.view();
  }
  Tensor run(Team& team, const ConstTensorView& b) const {
    Tensor c = Tensor::zeros({a_.shape()[0], b.shape(1)}, DType::f32);
    kernels::GemmProblem problem;
    problem.a = a_;
    problem.b = b;
    problem.bias = bias_;
    problem.c = c;
    cpu::gemm(team, problem);
    return c;
  }

  const Tensor& weight_;
  Tensor wide_, a_, bias_;
  bool transposed_;
};

void expect_same(std::int64_t M, const Tensor& weight, Random& random, const std::string& what) {
  const RestoreTarget restore;
  for (const bool transposed : {true, false}) {
    const Products products(M, weight, transposed, random);
    for (const std::string& target : targets_for(what + std::to_string(M))) {
      cpu::use_target(target);
      Team one(1), three(3);
      const Tensor expected = products.widened(one);
      const std::string where = what + " " + to_string(weight.shape()) + ", " + std::to_string(M) + " rows on " +
                                target + (transposed ? "" : ", by rows");
      ASSERT_TRUE(same_bits(where, expected, products.by_blocks(one)));
      ASSERT_TRUE(same_bits(where + ", 3 threads", expected, products.by_blocks(three)));
    }
  }
}

TEST(CpuBlocks, ProductsHaveTheBitsOfTheNumbersInF32) {
  for (const BlockFormat& format : block_formats()) {
    Random random(format.name);
    for (const std::int64_t N : {1, 31, 32, 33, 70}) {
      for (const std::int64_t blocks : {1, 2, 9}) {  // 288 columns of small blocks are summed in slices that cut blocks
        const Tensor weight = random_blocks({N, blocks * format.elements}, format.type, random);
        for (const std::int64_t M : {1, 2, 3, 5, 13, 97}) {
          expect_same(M, weight, random, std::string(format.name));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// As where q and k are stored in one type and v in another.
TEST(CpuBlocks, StripsMayDifferInType) {
  Random random("strips");
  const Tensor weight = random_blocks({90, 768}, {BlockType::q4_k, BlockType::q8_0, BlockType::q6_k}, random);
  for (const std::int64_t M : {1, 40}) expect_same(M, weight, random, "three types");
}

// Enough work for all of them. The gradient of inputs is made some columns at a time.
TEST(CpuBlocks, AnyNumberOfThreads) {
  Random random("threads");
  const Tensor wide = random_blocks({3000, 1504}, BlockType::q5_1, random);
  const Tensor tall = random_blocks({20'000, 544}, BlockType::q4_0, random);
  for (const Tensor* weight : {&wide, &tall}) {
    for (const std::int64_t M : {1, 7}) {
      for (const bool transposed : {true, false}) {
        const Products products(M, *weight, transposed, random);
        Team one(1);
        const Tensor expected = products.widened(one);
        for (int threads = 1; threads <= 8; threads += kSanitized ? 3 : 1) {
          Team team(threads);
          ASSERT_TRUE(same_bits("C", expected, products.by_blocks(team))) << M << " rows, " << threads << " threads";
        }
      }
    }
  }
}

TEST(CpuBlocks, LookupsHaveTheNumbers) {
  Random random("lookups");
  for (const BlockFormat& format : block_formats()) {
    const Tensor table = random_blocks({40, 2 * format.elements}, format.type, random), wide = widened_blocks(table);
    const std::int32_t numbers[] = {0, 39, 31, 32, 5, 5};
    const ConstTensorView indices(numbers, {2, 3});
    Tensor positions = Tensor::empty({4, table.shape()[1]}, DType::f32);
    fill_normal(positions, random);
    for (const ConstTensorView& added : {ConstTensorView(), ConstTensorView(positions)}) {
      Team team(2);
      Tensor found = Tensor::empty({2, 3, table.shape()[1]}, DType::f32),
             expected = Tensor::empty(found.shape(), DType::f32);
      cpu::embed(team, {table, indices, added, found});
      cpu::embed(team, {wide, indices, added, expected});
      ASSERT_TRUE(same_bits(std::string(format.name), found, expected));
    }
  }
}

TEST(CpuBlocks, RowsComeBackAsTheyWere) {
  Random random("rows");
  for (const BlockFormat& format : block_formats()) {
    const Dims shape{45, 3 * format.elements};
    BlockWriter writer(shape, std::vector(2, format.type));
    std::vector<std::vector<std::uint8_t>> rows;
    for (std::int64_t row = 0; row < shape[0]; ++row) {
      rows.push_back(random_row(format, shape[1], random));
      writer.put(row, rows.back().data());
    }
    const Tensor made = std::move(writer).finish();
    const BlockMatrix matrix(made);
    for (std::int64_t row = 0; row < shape[0]; ++row) {
      ASSERT_EQ(matrix.row(row), rows[static_cast<std::size_t>(row)]) << format.name;
    }
    EXPECT_EQ(made.bytes(), bytes_of_blocks(made));
    EXPECT_GE(made.bytes(), static_cast<std::size_t>(64 * format.row_bytes(shape[1])));
    EXPECT_LE(made.bytes(), static_cast<std::size_t>(64 * format.row_bytes(shape[1])) + 64);
  }
}

}  // namespace
}  // namespace polyhead::test
