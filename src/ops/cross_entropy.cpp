#include "ops/cross_entropy.h"

#include <algorithm>

#include "backend/cross_entropy.h"
#include "core/context.h"
#include "ops/rows.h"

namespace polyhead::ops {
namespace {

Dims without_last(const Dims& shape) {
  Dims result(shape.rank() - 1, 0);
  for (int axis = 0; axis < result.rank(); ++axis) result[axis] = shape[axis];
  return result;
}

void expect_classes(const RowMajor& rows, const ConstTensorView& targets) {
  const Argument classes{rows.op, "targets", targets};
  classes.expect_input(without_last(rows.shape), DType::i32);
  if (targets.count() > 0 && targets.strides() != contiguous_strides(targets.shape())) {
    classes.refuse(ErrorCode::layout, "row-major memory");
  }
  for (std::int64_t n = 0; n < rows.count; ++n) {
    const std::int32_t target = targets.as<std::int32_t>()[n];
    if (target < rows.columns) continue;
    throw Error(ErrorCode::value, rows.op,
                "targets: expected classes below " + std::to_string(rows.columns) + ", found " +
                    std::to_string(target) + " at place " + std::to_string(n));
  }
}

std::int64_t count_rows(const std::int32_t* targets, std::int64_t rows) {
  return std::count_if(targets, targets + rows, [](std::int32_t target) { return target >= 0; });
}

template <class T>
void share_out(const std::int32_t* targets, std::int64_t rows, std::int64_t rows_together, T* shares) {
  for (std::int64_t begin = 0; begin < rows; begin += rows_together) {
    const std::int64_t count = count_rows(targets + begin, rows_together);
    std::fill_n(shares + begin, rows_together, count == 0 ? T{0} : T{1} / static_cast<T>(count));
  }
}

template <class T>
double weighted_sum(const TensorView& losses, const TensorView& shares, std::int64_t rows) {
  double sum = 0;
  for (std::int64_t n = 0; n < rows; ++n) {
    sum += static_cast<double>(losses.as<T>()[n]) * static_cast<double>(shares.as<T>()[n]);
  }
  return sum;
}

}  // namespace

CrossEntropy cross_entropy(Context& context, const ConstTensorView& logits, const ConstTensorView& targets, Share share,
                           const TensorView& losses, const TensorView& shares, const TensorView& dlogits) {
  const RowMajor rows("cross_entropy", "logits", logits);
  expect_classes(rows, targets);
  rows.expect("losses", losses, without_last(rows.shape));
  rows.expect("shares", shares, without_last(rows.shape));
  if (dlogits.present()) rows.expect_like("dlogits", dlogits);
  const std::int32_t* classes = targets.as<std::int32_t>();
  const bool whole = share == Share::all;
  const std::int64_t sequences = rows.shape.rank() > 1 ? rows.shape[0] : rows.count;
  const std::int64_t together =
      std::max<std::int64_t>(1, whole ? rows.count : rows.count / std::max<std::int64_t>(1, sequences));
  const auto flat = [&](const auto& view) {
    return std::decay_t<decltype(view)>(view.data(), view.dtype(), {rows.count}, {1});
  };
  const bool wide = rows.dtype == DType::f64;
  wide ? share_out(classes, rows.count, together, shares.as<double>())
       : share_out(classes, rows.count, together, shares.as<float>());
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::cross_entropy(team, {rows.view(logits), flat(targets), flat(shares), flat(losses),
                            dlogits.present() ? rows.view(dlogits) : dlogits});
  return {wide ? weighted_sum<double>(losses, shares, rows.count) : weighted_sum<float>(losses, shares, rows.count),
          count_rows(classes, rows.count)};
}

}  // namespace polyhead::ops
