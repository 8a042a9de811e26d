// linear: check, call.
#include "polyhead/linear.h"

#include "core/context.h"
#include "ops/check.h"
#include "ops/projection.h"

namespace polyhead {
namespace {

// x [..,K] -> [..,last].
Dims with_last(const Dims& shape, std::int64_t last) {
  Dims result = shape;
  result[shape.rank() - 1] = last;
  return result;
}

void check(std::string_view op, const ConstTensorView& x, const ConstTensorView& weight) {
  const ops::Argument input{op, "x", x}, matrix{op, "weight", weight};
  if (!x.present() || x.rank() < 1) input.refuse(ErrorCode::shape, "one axis or more");
  if (!is_float(x.dtype())) input.refuse(ErrorCode::dtype, "a float type");
  if (weight.rank() != 2 || weight.shape(1) != x.shape(x.rank() - 1)) {
    matrix.refuse(ErrorCode::shape, "[N," + std::to_string(x.shape(x.rank() - 1)) + "] for x " + to_string(x.shape()));
  }
  matrix.expect_dtype(x.dtype());
  for (const ops::Argument& argument : {input, matrix}) {
    argument.expect_memory();
    argument.expect_last_stride_one();
  }
}

void check_bias(std::string_view op, const ConstTensorView& bias, const ConstTensorView& weight) {
  if (!bias.present()) return;
  const ops::Argument argument{op, "bias", bias};
  argument.expect_dtype(weight.dtype());
  argument.expect_shape({weight.shape(0)});
  argument.expect_memory();
  argument.expect_last_stride_one();
}

}  // namespace

void linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
                 const TensorView& y) {
  check("linear", x, weight);
  check_bias("linear", bias, weight);
  const ops::Argument output{"linear", "y", y};
  const ConstTensorView others[] = {x, weight, bias};
  output.expect_output(true, with_last(x.shape(), weight.shape(0)), x.dtype(), others);
  if (y.strides() != contiguous_strides(y.shape())) output.refuse(ErrorCode::layout, "row-major memory");
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  const Team::Burst burst(team);
  ops::project(team, x, weight, bias, y);
}

Tensor linear(Context& context, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias) {
  check("linear", x, weight);
  Tensor y = Tensor::empty(with_last(x.shape(), weight.shape(0)), x.dtype());
  linear_into(context, x, weight, bias, y);
  return y;
}

void linear_backward_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                          const ConstTensorView& dy, const LinearGradientOutputs& outputs) {
  constexpr std::string_view kOp = "linear_backward";
  check(kOp, x, weight);
  const ops::Argument upstream{kOp, "dy", dy};
  upstream.expect_input(with_last(x.shape(), weight.shape(0)), x.dtype());
  upstream.expect_last_stride_one();
  const auto expect = [&](std::string_view name, const TensorView& view, const Dims& shape) {
    if (!view.present()) return;
    const ConstTensorView others[] = {x, weight, dy};
    const ops::Argument output{kOp, name, view};
    output.expect_output(true, shape, x.dtype(), others);
    if (view.count() > 0 && view.strides() != contiguous_strides(shape)) {
      output.refuse(ErrorCode::layout, "row-major memory");
    }
  };
  expect("dx", outputs.dx, x.shape());
  expect("dweight", outputs.dweight, weight.shape());
  expect("dbias", outputs.dbias, {weight.shape(0)});
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  const Team::Burst burst(team);
  if (outputs.dx.present()) ops::project_back(team, dy, weight, outputs.dx);
  ops::project_weights(team, dy, x, outputs.dweight, outputs.dbias);
}

LinearGradients linear_backward(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                                const ConstTensorView& dy) {
  check("linear_backward", x, weight);
  LinearGradients gradients{Tensor::empty(x.shape(), x.dtype()), Tensor::empty(weight.shape(), x.dtype()),
                            Tensor::empty({weight.shape(0)}, x.dtype())};
  linear_backward_into(context, x, weight, dy, {gradients.dx, gradients.dweight, gradients.dbias});
  return gradients;
}

}  // namespace polyhead
