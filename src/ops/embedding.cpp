#include "ops/embedding.h"

#include <cstring>

#include "backend/embedding.h"
#include "backend/gemm.h"
#include "core/context.h"
#include "ops/rows.h"

namespace polyhead::ops {
namespace {

// y [B,T,C].
struct Sequences : RowMajor {
  Sequences(std::string_view op_name, std::string_view name, const ConstTensorView& y) : RowMajor(op_name, name, y) {
    if (y.rank() != 3) Argument{op, name, y}.refuse(ErrorCode::shape, "[B,T,C]");
  }
  std::int64_t batch() const { return shape[0]; }
  std::int64_t length() const { return shape[1]; }

  // A table of at least `least` rows.
  void expect_table(std::string_view name, const ConstTensorView& table, std::int64_t least) const {
    const bool matrix = table.present() && table.rank() == 2;
    if (matrix && table.shape(0) < least) {
      Argument{op, name, table}.refuse(ErrorCode::shape, std::to_string(least) + " rows or more");
    }
    expect(name, table, {matrix ? table.shape(0) : least, columns});
  }
};

void expect_numbers(const Sequences& rows, const ConstTensorView& indices, std::int64_t entries) {
  const Argument argument{rows.op, "indices", indices};
  argument.expect_input({rows.batch(), rows.length()}, DType::i32);
  if (indices.count() > 0 && indices.strides() != contiguous_strides(indices.shape())) {
    argument.refuse(ErrorCode::layout, "row-major memory");
  }
  for (std::int64_t n = 0; n < indices.count(); ++n) {
    const std::int32_t index = indices.as<std::int32_t>()[n];
    if (index >= 0 && index < entries) continue;
    throw Error(ErrorCode::value, rows.op,
                "indices: expected numbers from 0 to " + std::to_string(entries - 1) + ", found " +
                    std::to_string(index) + " at place " + std::to_string(n));
  }
}

void expect_lengths(const Sequences& rows, const ConstTensorView& lengths) {
  if (rows.length() < 1) throw Error(ErrorCode::shape, rows.op, "expected one token or more, found none");
  if (!lengths.present()) return;
  Argument{rows.op, "lengths", lengths}.expect_input({rows.batch()}, DType::i32);
  for (std::int64_t b = 0; b < rows.batch(); ++b) {
    const std::int32_t length = lengths.as<std::int32_t>()[b * lengths.stride(0)];
    if (length >= 1 && length <= rows.length()) continue;
    throw Error(ErrorCode::value, rows.op,
                "lengths: expected 1 to " + std::to_string(rows.length()) + ", found " + std::to_string(length));
  }
}

}  // namespace

void embed(Context& context, const ConstTensorView& table, const ConstTensorView& indices,
           const ConstTensorView& positions, const TensorView& y) {
  const Sequences rows("embed", "y", y);
  rows.expect_table("table", table, 0);
  if (positions.present()) rows.expect_table("positions", positions, rows.length());
  expect_numbers(rows, indices, table.shape(0));
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::embed(team, table, indices, positions, y);
}

void embed_backward(Context& context, const ConstTensorView& dy, const ConstTensorView& indices,
                    const TensorView& dtable) {
  const Sequences rows("embed_backward", "dy", dy);
  rows.expect_table("dtable", dtable, 0);
  expect_numbers(rows, indices, dtable.shape(0));
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::embed_backward(team, dy, indices, dtable);
}

void positions_backward(Context& context, const ConstTensorView& dy, const TensorView& dpositions) {
  const Sequences rows("positions_backward", "dy", dy);
  rows.expect_table("dpositions", dpositions, rows.length());
  const std::int64_t used = rows.length() * rows.columns, all = dpositions.count();
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  if (used > 0) {
    cpu::column_sums(team, ConstTensorView(dy.data(), rows.dtype, {rows.batch(), used}, {used, 1}),
                     TensorView(dpositions.data(), rows.dtype, {used}, {1}));
  }
  const std::size_t size = size_of(rows.dtype);
  std::memset(static_cast<std::byte*>(dpositions.data()) + static_cast<std::size_t>(used) * size, 0,
              static_cast<std::size_t>(all - used) * size);
}

void pool(Context& context, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y) {
  const Sequences rows("pool", "x", x);
  rows.expect("y", y, {rows.batch(), rows.columns});
  expect_lengths(rows, lengths);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::pool(team, x, lengths, y);
}

void pool_backward(Context& context, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx) {
  const Sequences rows("pool_backward", "dx", dx);
  rows.expect("dy", dy, {rows.batch(), rows.columns});
  expect_lengths(rows, lengths);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::pool_backward(team, dy, lengths, dx);
}

}  // namespace polyhead::ops
