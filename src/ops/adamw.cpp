#include "ops/adamw.h"

#include "backend/adamw.h"
#include "core/context.h"
#include "ops/rows.h"

namespace polyhead::ops {

void adamw(Context& context, const AdamW& rule, std::int64_t step, double factor, const TensorView& weight,
           const TensorView& first, const TensorView& second, const ConstTensorView& gradient) {
  const RowMajor rows("adamw", "weight", weight);
  rows.expect_like("first moment", first);
  rows.expect_like("second moment", second);
  rows.expect_like("gradient", gradient);
  if (step < 1) throw Error(ErrorCode::value, rows.op, "step: expected 1 or more, found " + std::to_string(step));
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::adamw(team, {weight, first, second, gradient, factor, rule.rate, rule.beta1, rule.beta2, rule.epsilon,
                    rule.decay, step});
}

double sum_of_squares(Context& context, const ConstTensorView& x) {
  const RowMajor rows("sum_of_squares", "x", x);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  return cpu::sum_of_squares(team, x);
}

}  // namespace polyhead::ops
