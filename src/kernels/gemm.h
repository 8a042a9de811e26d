// Products of matrices with everything resolved: C [M,N] = A [M,K] B [K,N]. A matrix is a view of two axes, one of
// which has stride 1; a transposed one is `view.transpose(0, 1)`. f32, f16 and bf16, which A, B and C may mix, are
// multiplied and added in f32; f64 in f64. Kernels check nothing.
#pragma once

#include <cstdint>

#include "polyhead/tensor.h"

namespace polyhead::kernels {

// B of a product, laid out once as the kernel of one vector target reads it; for weights, which serve many products.
struct PackedMatrix {
  // [strips][K][columns of a strip] in the type of B, or bf16 [strips][pairs in K][columns of a strip][2] where the
  // target multiplies pairs; the last strip is filled up with 0.
  Tensor strips;
  std::int64_t target = 0;  // a product on another target is an error
  bool rounds = false;      // the kernel rounds an A of f32 to the 16 bits of B itself
};

// coarse: operands of f32 are rounded to bf16, which some processors multiply twice as fast; sums stay f32.
enum class Products { exact, coarse };

struct GemmProblem {
  ConstTensorView a;
  ConstTensorView b;  // absent if `packed` is given
  const PackedMatrix* packed = nullptr;
  ConstTensorView bias;  // [N] in C's type, contiguous, added to every row; may be absent
  TensorView c;          // the columns have stride 1; overlaps no operand
  // Each absent or [M,N], of C's type, apart from it and contiguous, as C then is too. On the CPU C is then f32
  // or f64.
  ConstTensorView plus{};    // is added to C
  TensorView before_gelu{};  // receives the sum, and C GPT-2's GELU of it
};

}  // namespace polyhead::kernels
