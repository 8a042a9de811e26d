#include "ops/adamw.h"

#include "ops/call.h"
#include "ops/rows.h"

namespace polyhead::ops {

void adamw(Context& context, const AdamW& rule, std::int64_t step, double factor, const TensorView& weight,
           const TensorView& first, const TensorView& second, const ConstTensorView& gradient) {
  const RowMajor rows({"adamw", context.device()}, "weight", weight);
  rows.expect_like("first moment", first);
  rows.expect_like("second moment", second);
  rows.expect_like("gradient", gradient);
  if (step < 1) throw Error(ErrorCode::value, rows.op, "step: expected 1 or more, found " + std::to_string(step));
  run(context, &Kernels::adamw,
      {weight, first, second, gradient, factor, rule.rate, rule.beta1, rule.beta2, rule.epsilon, rule.decay, step});
}

void sum_of_squares(Context& context, const ConstTensorView& x, const TensorView& sum) {
  const RowMajor rows({"sum_of_squares", context.device()}, "x", x);
  Argument{rows.op, "sum", sum}.expect_input({1}, DType::f64);
  run(context, &Kernels::sum_of_squares, x, sum);
}

}  // namespace polyhead::ops
