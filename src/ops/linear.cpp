// linear: check, call.
#include "polyhead/linear.h"

#include "core/row_major.h"
#include "ops/call.h"
#include "ops/check.h"
#include "ops/linear.h"
#include "ops/projection.h"

namespace polyhead {
namespace {

// x [..,K] -> [..,last].
Dims with_last(const Dims& shape, std::int64_t last) {
  Dims result = shape;
  result[shape.rank() - 1] = last;
  return result;
}

void check(const ops::Op& op, const ConstTensorView& x, const ConstTensorView& weight) {
  const ops::Argument input{op, "x", x}, matrix{op, "weight", weight};
  if (!x.present() || x.rank() < 1) input.refuse(ErrorCode::shape, "one axis or more");
  if (!is_float(x.dtype())) input.refuse(ErrorCode::dtype, "a float type");
  if (weight.rank() != 2 || weight.shape(1) != x.shape(x.rank() - 1)) {
    matrix.refuse(ErrorCode::shape, "[N," + std::to_string(x.shape(x.rank() - 1)) + "] for x " + to_string(x.shape()));
  }
  matrix.expect_dtype(ops::weight_type(weight, x.dtype()));
  for (const ops::Argument& argument : {input, matrix}) {
    argument.expect_memory();
    argument.expect_last_stride_one();
  }
}

void check_bias(const ops::Op& op, const ConstTensorView& bias, const ConstTensorView& weight, DType dtype) {
  if (!bias.present()) return;
  const ops::Argument argument{op, "bias", bias};
  argument.expect_dtype(dtype);
  argument.expect_shape({weight.shape(0)});
  argument.expect_memory();
  argument.expect_last_stride_one();
}

void check_extras(const ops::Op& op, bool mixes_types, const ops::ProductExtras& extras, const TensorView& y,
                  std::span<const ConstTensorView> inputs) {
  const ops::Argument plus{op, "plus", extras.plus}, before{op, "before_gelu", extras.before_gelu};
  for (const ops::Argument& extra : {plus, before}) {
    if (!extra.view.present()) continue;
    extra.expect_input(y.shape(), y.dtype());
    if (extra.view.strides() != y.strides()) extra.refuse(ErrorCode::layout, "row-major memory");
    if (!mixes_types && size_of(y.dtype()) == 2) extra.refuse(ErrorCode::dtype, "f32 or f64 on this device");
    if (ops::overlap(extra.view, y)) extra.refuse(ErrorCode::layout, "memory apart from y");
  }
  if (!extras.before_gelu.present()) return;
  std::vector<ConstTensorView> others(inputs.begin(), inputs.end());
  others.push_back(extras.plus);
  before.expect_output(true, y.shape(), y.dtype(), others);
}

}  // namespace

backend::PackedMatrix ops::pack(Context& context, const ConstTensorView& weight, Products products) {
  return run(context, &Kernels::pack, weight.transpose(0, 1), products);
}

void ops::linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                      const ConstTensorView& bias, const TensorView& y, const ProductExtras& extras) {
  const ops::Op op{"linear", context.device()};
  check(op, x, weight);
  const DType dtype = sum_type(y, x.dtype());
  check_bias(op, bias, weight, dtype);
  const ops::Argument output{op, "y", y};
  const ConstTensorView others[] = {x, weight, bias};
  output.expect_output(true, with_last(x.shape(), weight.shape(0)), dtype, others);
  if (!is_row_major(y)) output.refuse(ErrorCode::layout, "row-major memory");
  check_extras(op, mixes_types(context), extras, y, others);
  project(Call(context), x, weight, bias, y, extras);
}

void linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
                 const TensorView& y) {
  ops::linear_into(context, x, weight, bias, y, {});
}

Tensor linear(Context& context, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias) {
  check({"linear", context.device()}, x, weight);
  Tensor y = Tensor::empty(with_last(x.shape(), weight.shape(0)), x.dtype(), context.allocator());
  linear_into(context, x, weight, bias, y);
  return y;
}

void linear_backward_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                          const ConstTensorView& dy, const LinearGradientOutputs& outputs) {
  const ops::Op op{"linear_backward", context.device()};
  check(op, x, weight);
  const ops::Argument upstream{op, "dy", dy};
  upstream.expect_input(with_last(x.shape(), weight.shape(0)), x.dtype());
  upstream.expect_last_stride_one();
  const auto expect = [&](std::string_view name, const TensorView& view, const Dims& shape, DType dtype) {
    if (!view.present()) return;
    std::vector<ConstTensorView> others{x, weight, dy};
    for (const TensorView* other : {&outputs.dx, &outputs.dweight, &outputs.dbias}) {
      if (other != &view) others.push_back(*other);
    }
    const ops::Argument output{op, name, view};
    output.expect_output(true, shape, dtype, others);
    if (view.count() > 0 && !is_row_major(view)) output.refuse(ErrorCode::layout, "row-major memory");
  };
  expect("dx", outputs.dx, x.shape(), x.dtype());
  expect("dweight", outputs.dweight, weight.shape(), ops::sum_type(outputs.dweight, x.dtype()));
  expect("dbias", outputs.dbias, {weight.shape(0)}, ops::sum_type(outputs.dbias, x.dtype()));
  const ops::Call call(context);
  if (outputs.dx.present()) ops::project_back(call, dy, weight, outputs.dx);
  ops::project_weights(call, dy, x, outputs.dweight, outputs.dbias);
}

LinearGradients linear_backward(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                                const ConstTensorView& dy) {
  check({"linear_backward", context.device()}, x, weight);
  const auto made = [&](const Dims& shape) { return Tensor::empty(shape, x.dtype(), context.allocator()); };
  LinearGradients gradients{made(x.shape()), made(weight.shape()), made({weight.shape(0)})};
  linear_backward_into(context, x, weight, dy, {gradients.dx, gradients.dweight, gradients.dbias});
  return gradients;
}

}  // namespace polyhead
