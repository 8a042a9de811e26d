#include "ops/embedding.h"

#include "core/row_major.h"
#include "ops/call.h"
#include "ops/rows.h"

namespace polyhead::ops {
namespace {

// y [B,T,C].
struct Sequences : RowMajor {
  Sequences(const Op& the_op, std::string_view name, const ConstTensorView& y) : RowMajor(the_op, name, y) {
    if (y.rank() != 3) Argument{op, name, y}.refuse(ErrorCode::shape, "[B,T,C]");
  }
  std::int64_t batch() const { return shape[0]; }
  std::int64_t length() const { return shape[1]; }

  // A table of at least `least` rows of the type.
  void expect_table(std::string_view name, const ConstTensorView& table, std::int64_t least, DType type) const {
    const bool matrix = table.present() && table.rank() == 2;
    if (matrix && table.shape(0) < least) {
      Argument{op, name, table}.refuse(ErrorCode::shape, std::to_string(least) + " rows or more");
    }
    expect(name, table, {matrix ? table.shape(0) : least, columns}, type);
  }
};

void expect_indices(const Sequences& rows, const ConstTensorView& indices) {
  const Argument argument{rows.op, "indices", indices};
  argument.expect_input({rows.batch(), rows.length()}, DType::i32);
  if (indices.count() > 0 && !is_row_major(indices)) argument.refuse(ErrorCode::layout, "row-major memory");
}

void expect_lengths(const Sequences& rows, const ConstTensorView& lengths) {
  if (rows.length() < 1) throw Error(ErrorCode::shape, rows.op, "expected one token or more, found none");
  if (!lengths.present()) return;
  Argument{rows.op, "lengths", lengths}.expect_input({rows.batch()}, DType::i32);
}

}  // namespace

void embed(Context& context, const ConstTensorView& table, const ConstTensorView& indices,
           const ConstTensorView& positions, const TensorView& y) {
  const Sequences rows({"embed", context.device()}, "y", y);
  rows.expect_table("table", table, 0, weight_type(table, rows.dtype));
  if (positions.present()) rows.expect_table("positions", positions, rows.length(), rows.dtype);
  expect_indices(rows, indices);
  run(context, &Table::embed, {table, indices, positions, y});
}

void embed_backward(Context& context, const ConstTensorView& dy, const ConstTensorView& indices,
                    const TensorView& dtable) {
  const Sequences rows({"embed_backward", context.device()}, "dy", dy);
  rows.expect_table("dtable", dtable, 0, rows.dtype);
  expect_indices(rows, indices);
  run(context, &Table::embed_backward, {dy, indices, dtable});
}

void positions_backward(Context& context, const ConstTensorView& dy, const TensorView& dpositions) {
  const Sequences rows({"positions_backward", context.device()}, "dy", dy);
  rows.expect_table("dpositions", dpositions, rows.length(), rows.dtype);
  const std::int64_t used = rows.length() * rows.columns;
  if (used > 0) {
    run(context, &Table::column_sums, dy.reshape({rows.batch(), used}),
        dpositions.slice(0, 0, rows.length()).reshape({used}), {});
  }
  const TensorView rest = dpositions.slice(0, rows.length(), dpositions.shape(0));
  if (rest.count() > 0)
    context.allocator()->zero(rest.data(), static_cast<std::size_t>(rest.count()) * size_of(rows.dtype));
}

void pool(Context& context, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y) {
  const Sequences rows({"pool", context.device()}, "x", x);
  rows.expect("y", y, {rows.batch(), rows.columns});
  expect_lengths(rows, lengths);
  run(context, &Table::pool, x, lengths, y);
}

void pool_backward(Context& context, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx) {
  const Sequences rows({"pool_backward", context.device()}, "dx", dx);
  rows.expect("dy", dy, {rows.batch(), rows.columns});
  expect_lengths(rows, lengths);
  run(context, &Table::pool_backward, dy, lengths, dx);
}

}  // namespace polyhead::ops
