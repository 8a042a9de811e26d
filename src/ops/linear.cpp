// linear: check, call, and its steps.
#include "polyhead/linear.h"

#include <algorithm>

#include "core/row_major.h"
#include "ops/call.h"
#include "ops/check.h"
#include "ops/linear.h"

namespace polyhead {
namespace ops {
namespace {

// The stride between rows, in elements, if the leading axes of x form evenly spaced rows; else 0.
std::int64_t row_stride(const ConstTensorView& x) {
  std::int64_t stride = 0, rows = 1;  // of the axes seen so far
  for (int axis = x.rank() - 2; axis >= 0; --axis) {
    if (x.shape(axis) == 1) continue;
    if (rows == 1) stride = x.stride(axis);
    if (x.stride(axis) != rows * stride) return 0;
    rows *= x.shape(axis);
  }
  return rows == 1 ? std::max<std::int64_t>(x.shape(x.rank() - 1), 1) : stride;
}

// [..,K] with evenly spaced rows as [M,K]. The last stride is 1, or K is 1 and the stride does not matter.
template <class View>
View collapsed(const View& x) {
  const int last = x.rank() - 1;
  std::int64_t rows = 1;
  for (int axis = 0; axis < last; ++axis) rows *= x.shape(axis);
  return x.as_strided({rows, x.shape(last)}, {row_stride(x), 1});
}

// The same for any strides of the leading axes; what does not collapse is copied to `copy`.
ConstTensorView matrix(const Call& call, const ConstTensorView& x, Tensor& copy) {
  if (row_stride(x) > 0 || x.count() == 0) return collapsed(x);
  copy = Tensor::empty(x.shape(), x.dtype(), call.executor().allocator());
  call(&Table::copy, x, copy);
  return collapsed(ConstTensorView(copy));
}

// Rows [first, last) of a weight or bias, which may be absent.
ConstTensorView rows_of(const ConstTensorView& x, const Some& rows) {
  return x.present() ? x.slice(0, rows.first, rows.last) : x;
}
template <class View>
View columns_of(const View& x, const Some& columns) {
  return x.slice(x.rank() - 1, columns.first, columns.last);
}

// What is added to a product is added once all columns are there, as the kernel of one process adds it.
void linear_on_ranks(const Call& call, const ConstTensorView& x, const ConstTensorView& weight,
                     const ConstTensorView& bias, const TensorView& y, const LinearExtras& extras) {
  const TensorView sum = extras.before_gelu.present() ? extras.before_gelu : y;
  const Some own = extras.shared->own(weight.shape(0));
  if (!own.none()) linear(call, x, rows_of(weight, own), rows_of(bias, own), columns_of(sum, own));
  extras.shared->gather_columns(call, sum);
  if (extras.plus.present()) {
    call(&Table::elementwise, {kernels::Elementwise::add, collapsed(extras.plus), collapsed(sum), collapsed(sum)});
  }
  if (extras.before_gelu.present()) {
    call(&Table::elementwise, {kernels::Elementwise::gelu, collapsed(sum), {}, collapsed(y)});
  }
}

}  // namespace

void linear(const Call& call, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
            const TensorView& y, const LinearExtras& extras) {
  if (extras.shared != nullptr) return linear_on_ranks(call, x, weight, bias, y, extras);
  const kernels::PackedMatrix* packed = extras.packed;
  Tensor copy;
  ConstTensorView a = matrix(call, x, copy);
  if (packed != nullptr && !packed->rounds && packed->strips.dtype() != weight.dtype()) {  // coarse: x is rounded, too
    const TensorView rounded = call.scratch(ScratchSlot::rounded, a.shape(), packed->strips.dtype());
    call(&Table::copy, a, rounded);
    a = rounded;
  }
  call(&Table::gemm, {.a = a,
                      .b = packed == nullptr ? collapsed(weight).transpose(0, 1) : ConstTensorView{},
                      .packed = packed,
                      .bias = bias,
                      .c = collapsed(y),
                      .plus = extras.plus.present() ? collapsed(extras.plus) : extras.plus,
                      .before_gelu = extras.before_gelu.present() ? collapsed(extras.before_gelu) : TensorView{}});
}

void linear_dx(const Call& call, const ConstTensorView& dy, const ConstTensorView& weight, const TensorView& dx,
               SharedPass* shared) {
  if (shared != nullptr) {
    const Some own = shared->own(weight.shape(1));
    if (!own.none()) linear_dx(call, dy, columns_of(weight, own), columns_of(dx, own));
    return shared->gather_columns(call, dx);
  }
  Tensor copy;
  call(&Table::gemm, {.a = matrix(call, dy, copy), .b = collapsed(weight), .bias = {}, .c = collapsed(dx)});
}

void linear_dweight(const Call& call, const ConstTensorView& dy, const ConstTensorView& x, const TensorView& dweight,
                    const TensorView& dbias, SharedPass* shared) {
  if (shared != nullptr) {
    const Some own = shared->own(dy.shape(dy.rank() - 1));
    if (own.none()) return;
    const auto rows = [&](const TensorView& to) { return to.present() ? to.slice(0, own.first, own.last) : to; };
    return linear_dweight(call, columns_of(dy, own), x, rows(dweight), rows(dbias));
  }
  Tensor dy_copy, x_copy;
  const ConstTensorView upstream = matrix(call, dy, dy_copy);
  if (dweight.present()) {
    call(&Table::gemm,
         {.a = upstream.transpose(0, 1), .b = matrix(call, x, x_copy), .bias = {}, .c = collapsed(dweight)});
  }
  if (dbias.present()) call(&Table::column_sums, upstream, dbias, {});
}

}  // namespace ops

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

void check_extras(const ops::Op& op, bool mixes_types, const ops::LinearExtras& extras, const TensorView& y,
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

kernels::PackedMatrix ops::pack(Context& context, const ConstTensorView& weight, Products products) {
  return run(context, &Table::pack, weight.transpose(0, 1), products);
}

void ops::linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                      const ConstTensorView& bias, const TensorView& y, const LinearExtras& extras) {
  const ops::Op op{"linear", context.device()};
  check(op, x, weight);
  const DType dtype = sum_type(y, x.dtype());
  check_bias(op, bias, weight, dtype);
  const ops::Argument output{op, "y", y};
  const ConstTensorView others[] = {x, weight, bias};
  output.expect_output(true, with_last(x.shape(), weight.shape(0)), dtype, others);
  if (!is_row_major(y)) output.refuse(ErrorCode::layout, "row-major memory");
  check_extras(op, mixes_types(context), extras, y, others);
  linear(Call(context), x, weight, bias, y, extras);
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

void ops::linear_backward_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                               const ConstTensorView& dy, const LinearGradientOutputs& outputs, SharedPass* shared) {
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
  if (outputs.dx.present()) ops::linear_dx(call, dy, weight, outputs.dx, shared);
  ops::linear_dweight(call, dy, x, outputs.dweight, outputs.dbias, shared);
}

void linear_backward_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                          const ConstTensorView& dy, const LinearGradientOutputs& outputs) {
  ops::linear_backward_into(context, x, weight, dy, outputs, nullptr);
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
