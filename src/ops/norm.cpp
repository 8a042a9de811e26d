#include "ops/norm.h"

#include "ops/call.h"
#include "ops/check.h"
#include "ops/rows.h"

namespace polyhead::ops {

void normalise(Context& context, const ConstTensorView& x, const ConstTensorView& gamma, const ConstTensorView& beta,
               double epsilon, const TensorView& y, const TensorView& scales) {
  const RowMajor rows({"normalise", context.device()}, "x", x);
  if (!(epsilon > 0)) throw Error(ErrorCode::value, rows.op, "epsilon: expected a positive number");
  rows.expect_vector("gamma", gamma);
  if (beta.present()) rows.expect_vector("beta", beta);
  rows.expect_like("y", y);
  rows.expect("scales", scales, {rows.count, 2});
  run(context, &Kernels::normalise, {rows.view(x), gamma, beta, epsilon, rows.view(y), scales});
}

void normalise_backward(Context& context, const ConstTensorView& x, const ConstTensorView& gamma,
                        const ConstTensorView& scales, const ConstTensorView& dy, const ConstTensorView& plus,
                        const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta) {
  const RowMajor rows({"normalise_backward", context.device()}, "x", x);
  rows.expect_vector("gamma", gamma);
  rows.expect("scales", scales, {rows.count, 2});
  rows.expect_like("dy", dy);
  if (plus.present()) rows.expect_like("plus", plus);
  rows.expect_like("dx", dx);
  rows.expect_vector("dgamma", dgamma);
  if (dbeta.present()) rows.expect_vector("dbeta", dbeta);
  run(context, &Kernels::normalise_backward,
      {.x = rows.view(x),
       .gamma = gamma,
       .scales = scales,
       .dy = rows.view(dy),
       .plus = rows.view(plus),
       .centred = dbeta.present(),
       .dx = rows.view(dx),
       .dgamma = dgamma,
       .dbeta = dbeta});
}

}  // namespace polyhead::ops
