#include "ops/activation.h"

#include "backend/activation.h"
#include "backend/gemm.h"
#include "core/context.h"
#include "ops/rows.h"

namespace polyhead::ops {
namespace {

// x [..,2F] -> [..,F].
Dims halved(std::string_view op, const ConstTensorView& x) {
  Dims shape = x.shape();
  std::int64_t& last = shape[shape.rank() - 1];
  if (last % 2 != 0)
    Argument{op, "x", x}.refuse(ErrorCode::shape, "an even number of columns: a gate beside each value");
  last /= 2;
  return shape;
}

template <class View>
View as_rows(const RowMajor& rows, const View& half) {
  return View(half.data(), rows.dtype, {rows.count, rows.columns / 2}, {rows.columns / 2, 1});
}

}  // namespace

void gelu(Context& context, const ConstTensorView& x, const TensorView& y) {
  const RowMajor rows("gelu", "x", x);
  rows.expect_like("y", y);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::gelu(team, x, y);
}

void gelu_backward(Context& context, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx) {
  const RowMajor rows("gelu_backward", "x", x);
  rows.expect_like("dy", dy);
  rows.expect_like("dx", dx);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::gelu_backward(team, x, dy, dx);
}

void silu_gate(Context& context, const ConstTensorView& x, const TensorView& y) {
  const RowMajor rows("silu_gate", "x", x);
  rows.expect("y", y, halved(rows.op, x));
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::silu_gate(team, rows.view(x), as_rows(rows, y));
}

void silu_gate_backward(Context& context, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx) {
  const RowMajor rows("silu_gate_backward", "x", x);
  rows.expect("dy", dy, halved(rows.op, x));
  rows.expect_like("dx", dx);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::silu_gate_backward(team, rows.view(x), as_rows(rows, dy), rows.view(dx));
}

void add_row(Context& context, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y) {
  const RowMajor rows("add_row", "x", x);
  rows.expect_vector("row", row);
  rows.expect_like("y", y);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::add_row(team, rows.view(x), row, rows.view(y));
}

void add_row_backward(Context& context, const ConstTensorView& dy, const TensorView& drow) {
  const RowMajor rows("add_row_backward", "dy", dy);
  rows.expect_vector("drow", drow);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::column_sums(team, rows.view(dy), drow);
}

void add(Context& context, const ConstTensorView& a, const ConstTensorView& b, const TensorView& y) {
  const RowMajor rows("add", "a", a);
  rows.expect_like("b", b);
  rows.expect_like("y", y);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::add(team, a, b, y);
}

}  // namespace polyhead::ops
