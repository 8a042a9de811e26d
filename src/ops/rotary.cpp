// rotate: check, call.
#include "polyhead/rotary.h"

#include <cmath>

#include "ops/call.h"
#include "ops/check.h"
#include "ops/rotary.h"

namespace polyhead {

kernels::RotaryProblem ops::resolve(const Op& op, const ConstTensorView& x, const Rotary& rotary,
                                    const ConstTensorView& positions) {
  const ops::Argument argument{op, "x", x};
  if (x.rank() != 4) argument.refuse(ErrorCode::shape, "[B,H,T,D]");
  if (!is_float(x.dtype())) argument.refuse(ErrorCode::dtype, "a float type");
  argument.expect_memory();
  argument.expect_last_stride_one();
  const std::int64_t B = x.shape(0), T = x.shape(2), D = x.shape(3);
  kernels::RotaryProblem problem{.x = x,
                                 .y = {},
                                 .positions = {},
                                 .layout = rotary.layout,
                                 .dim = rotary.dim,
                                 .base = rotary.base,
                                 .scaling = rotary.scaling,
                                 .factors = rotary.factors};
  if (rotary.dim == 0) problem.dim = D;
  if (problem.dim < 0 || problem.dim > D || problem.dim % 2 != 0) {
    throw Error(ErrorCode::value, op,
                "dim: expected an even number of columns up to " + std::to_string(D) + ", found " +
                    std::to_string(problem.dim));
  }
  if (!(rotary.base > 0) || !std::isfinite(rotary.base)) {
    throw Error(ErrorCode::value, op, "base: expected a positive number, found " + std::to_string(rotary.base));
  }
  const auto& [factor, slow, fast, context] = rotary.scaling;
  if (!(factor >= 1 && std::isfinite(factor) && slow > 0 && fast > slow && std::isfinite(fast) && context >= 0)) {
    throw Error(ErrorCode::value, op,
                "scaling: expected a factor of 1 or more, 0 < slow < fast and a context of 0 or more, found " +
                    std::to_string(factor) + ", " + std::to_string(slow) + ", " + std::to_string(fast) + ", " +
                    std::to_string(context));
  }
  if (rotary.factors.present()) {
    const ops::Argument factors{op, "factors", rotary.factors};
    factors.expect_dtype(DType::f32);
    factors.expect_memory();
    factors.expect_shape({problem.dim / 2});
    factors.expect_last_stride_one();
  }
  if (positions.present()) {
    const ops::Argument places{op, "positions", positions};
    places.expect_dtype(DType::i32);
    places.expect_memory();
    if (positions.rank() == 2) {
      places.expect_shape({B, T});
      problem.positions = positions;
    } else {
      places.expect_shape({T});
      problem.positions = positions.as_strided({B, T}, {0, positions.stride(0)});
    }
  }
  return problem;
}

namespace {

void call(Context& context, const ops::Op& op, kernels::RotaryProblem& problem, const TensorView& y, bool backwards) {
  const ops::Argument argument{op, "y", y};
  const bool in_place = y.data() == problem.x.data() && y.strides() == problem.x.strides();
  const ConstTensorView others[] = {in_place ? ConstTensorView{} : problem.x, problem.positions, problem.factors};
  argument.expect_output(true, problem.x.shape(), problem.x.dtype(), others);
  argument.expect_last_stride_one();
  problem.y = y;
  problem.backwards = backwards;
  ops::run(context, &ops::Table::rotate, problem);
}

void rotate_as(Context& context, const ops::Op& op, const ConstTensorView& x, const Rotary& rotary,
               const ConstTensorView& positions, const TensorView& y, bool backwards) {
  kernels::RotaryProblem problem = ops::resolve(op, x, rotary, positions);
  call(context, op, problem, y, backwards);
}

Tensor made(Context& context, const ops::Op& op, const ConstTensorView& x, const Rotary& rotary,
            const ConstTensorView& positions, bool backwards) {
  kernels::RotaryProblem problem = ops::resolve(op, x, rotary, positions);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), context.allocator());
  call(context, op, problem, y, backwards);
  return y;
}

}  // namespace

Tensor rotate(Context& context, const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions) {
  return made(context, {"rotate", context.device()}, x, rotary, positions, false);
}

void rotate_into(Context& context, const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions,
                 const TensorView& y) {
  rotate_as(context, {"rotate", context.device()}, x, rotary, positions, y, false);
}

Tensor rotate_backward(Context& context, const ConstTensorView& dy, const Rotary& rotary,
                       const ConstTensorView& positions) {
  return made(context, {"rotate_backward", context.device()}, dy, rotary, positions, true);
}

void rotate_backward_into(Context& context, const ConstTensorView& dy, const Rotary& rotary,
                          const ConstTensorView& positions, const TensorView& dx) {
  rotate_as(context, {"rotate_backward", context.device()}, dy, rotary, positions, dx, true);
}

}  // namespace polyhead
