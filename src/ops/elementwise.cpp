#include "ops/elementwise.h"

#include "ops/call.h"
#include "ops/rows.h"

namespace polyhead::ops {
namespace {

// x [..,2F] -> [..,F].
Dims halved(const Op& op, const ConstTensorView& x) {
  Dims shape = x.shape();
  std::int64_t& last = shape[shape.rank() - 1];
  if (last % 2 != 0)
    Argument{op, "x", x}.refuse(ErrorCode::shape, "an even number of columns: a gate beside each value");
  last /= 2;
  return shape;
}

template <class View>
View as_rows(const RowMajor& rows, const View& half) {
  return half.reshape({rows.count, rows.columns / 2});
}

}  // namespace

void elementwise(Context& context, Elementwise op, const ConstTensorView& a, const ConstTensorView& b,
                 const TensorView& y, double factor, const TensorView& sums) {
  const RowMajor rows({kernels::name_of(op), context.device()}, "a", a, row_types(context));
  if (is_binary(op)) rows.expect_like("b", b);
  rows.expect_like("y", y);
  for (const ConstTensorView& input : {a, b}) {  // else y would overwrite elements of another size before they are read
    if (input.present() && input.dtype() != y.dtype() && overlap(input, y)) {
      Argument{rows.op, "y", y}.refuse(ErrorCode::layout, "memory apart from inputs of another type");
    }
  }
  if (sums.present()) {
    rows.expect_vector("sums", sums);
    if (!is_backward(op)) Argument{rows.op, "sums", sums}.refuse(ErrorCode::unsupported, "none but for a backward");
  }
  run(context, &Table::elementwise, {op, rows.view(a), rows.view(b), rows.view(y), factor, sums});
}

void round(Context& context, std::span<const ConstTensorView> from, std::span<const TensorView> to) {
  const Op op{"round", context.device()};
  if (from.size() != to.size()) {
    throw Error(ErrorCode::shape, op,
                "to: expected " + std::to_string(from.size()) + " tensors, found " + std::to_string(to.size()));
  }
  for (std::size_t n = 0; n < from.size(); ++n) {
    const RowMajor rows(op, "from", from[n]);
    Argument{op, "from", from[n]}.expect_dtype(DType::f32);
    rows.expect("to", to[n], rows.shape, to[n].dtype() == DType::f16 ? DType::f16 : DType::bf16);
    const Argument output{op, "to", to[n]};
    output.expect_dtype(to[0].dtype());
    if (overlap(from[n], to[n])) output.refuse(ErrorCode::layout, "memory apart from where it comes from");
  }
  if (!from.empty()) run(context, &Table::round, from, to);
}

void round_and_sum(Context& context, const ConstTensorView& x, const TensorView& rounded, const TensorView& sums) {
  const RowMajor rows({"round_and_sum", context.device()}, "x", x);
  Argument{rows.op, "x", x}.expect_dtype(DType::f32);
  rows.expect("rounded", rounded, rows.shape, rounded.dtype() == DType::f16 ? DType::f16 : DType::bf16);
  if (overlap(x, rounded)) {
    Argument{rows.op, "rounded", rounded}.refuse(ErrorCode::layout, "memory apart from where it comes from");
  }
  if (!sums.present()) return run(context, &Table::copy, x, rounded);
  rows.expect_vector("sums", sums);
  run(context, &Table::column_sums, rows.view(x), sums, rows.view(rounded));
}

void gate(Context& context, Gate kind, const ConstTensorView& x, const TensorView& y) {
  const RowMajor rows({"gate", context.device()}, "x", x, row_types(context));
  rows.expect("y", y, halved(rows.op, x));
  run(context, &Table::gate, kind, rows.view(x), as_rows(rows, y));
}

void gate_backward(Context& context, Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx) {
  const RowMajor rows({"gate_backward", context.device()}, "x", x, row_types(context));
  rows.expect("dy", dy, halved(rows.op, x));
  rows.expect_like("dx", dx);
  run(context, &Table::gate_backward, kind, rows.view(x), as_rows(rows, dy), rows.view(dx));
}

void add_row(Context& context, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  const RowMajor rows({"add_row", context.device()}, "x", x, row_types(context));
  rows.expect_vector("row", row);
  rows.expect_like("y", y);
  run(context, &Table::add_row, rows.view(x), row, rows.view(y));
}

void add_row_backward(Context& context, const ConstTensorView& dy, const TensorView& drow) {
  const RowMajor rows({"add_row_backward", context.device()}, "dy", dy, row_types(context));
  rows.expect_vector("drow", drow);
  run(context, &Table::column_sums, rows.view(dy), drow, {});
}

}  // namespace polyhead::ops
