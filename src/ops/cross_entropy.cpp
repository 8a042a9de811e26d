#include "ops/cross_entropy.h"

#include <algorithm>

#include "core/row_major.h"
#include "ops/call.h"
#include "ops/rows.h"

namespace polyhead::ops {
namespace {

Dims without_last(const Dims& shape) {
  Dims result(shape.rank() - 1, 0);
  for (int axis = 0; axis < result.rank(); ++axis) result[axis] = shape[axis];
  return result;
}

Dims with_last(Dims shape, std::int64_t last) {
  shape[shape.rank() - 1] = last;
  return shape;
}

}  // namespace

CrossEntropy read(Context& context, const ConstTensorView& totals) {
  double found[2];
  context.allocator()->copy_out(found, totals.data(), sizeof found);
  return {found[0], static_cast<std::int64_t>(found[1])};
}

void cross_entropy(Context& context, const ConstTensorView& logits, const ConstTensorView& targets, Share share,
                   const TensorView& losses, const TensorView& shares, const TensorView& totals,
                   const TensorView& dlogits, const TensorView& target_scores) {
  const RowMajor rows({"cross_entropy", context.device()}, "logits", logits);
  const Argument classes{rows.op, "targets", targets};
  classes.expect_input(without_last(rows.shape), DType::i32);
  if (targets.count() > 0 && !is_row_major(targets)) classes.refuse(ErrorCode::layout, "row-major memory");
  rows.expect("losses", losses, without_last(rows.shape));
  rows.expect("shares", shares, without_last(rows.shape));
  rows.expect("totals", totals, {2}, DType::f64);
  if (dlogits.present()) rows.expect_like("dlogits", dlogits);
  if (target_scores.present()) rows.expect("target_scores", target_scores, with_last(rows.shape, 2));
  const std::int64_t sequences = rows.shape.rank() > 1 ? rows.shape[0] : rows.count;
  const std::int64_t together = share == Share::all ? rows.count : rows.count / std::max<std::int64_t>(1, sequences);
  const Dims flat{rows.count};
  run(context, &Table::cross_entropy,
      {.logits = rows.view(logits),
       .targets = targets.reshape(flat),
       .rows_together = std::max<std::int64_t>(1, together),
       .shares = shares.reshape(flat),
       .losses = losses.reshape(flat),
       .totals = totals,
       .dlogits = rows.view(dlogits),
       .target_scores = target_scores.present() ? target_scores.reshape({rows.count, 2}) : target_scores});
}

}  // namespace polyhead::ops
