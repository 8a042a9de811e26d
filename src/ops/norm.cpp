#include "ops/norm.h"

#include "ops/call.h"
#include "ops/check.h"
#include "ops/rows.h"

namespace polyhead::ops {

void normalise(Context& context, const ConstTensorView& x, const ConstTensorView& gamma, const ConstTensorView& beta,
               double epsilon, const TensorView& y, const TensorView& mean_rstd) {
  const RowMajor rows({"normalise", context.device()}, "x", x, row_types(context));
  if (!(epsilon > 0)) throw Error(ErrorCode::value, rows.op, "epsilon: expected a positive number");
  rows.expect_vector("gamma", gamma);
  if (beta.present()) rows.expect_vector("beta", beta);
  rows.expect_like("y", y);
  rows.expect("mean_rstd", mean_rstd, {rows.count, 2}, rows.numbers);
  run(context, &Table::normalise, {rows.view(x), gamma, beta, epsilon, rows.view(y), mean_rstd});
}

void normalise_backward(Context& context, const ConstTensorView& x, const ConstTensorView& gamma,
                        const ConstTensorView& mean_rstd, const ConstTensorView& dy, const ConstTensorView& plus,
                        const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta) {
  const RowMajor rows({"normalise_backward", context.device()}, "x", x, row_types(context));
  rows.expect_vector("gamma", gamma);
  rows.expect("mean_rstd", mean_rstd, {rows.count, 2}, rows.numbers);
  rows.expect_like("dy", dy);
  if (plus.present()) rows.expect_like("plus", plus);
  rows.expect_like("dx", dx);
  rows.expect_vector("dgamma", dgamma);
  if (dbeta.present()) rows.expect_vector("dbeta", dbeta);
  run(context, &Table::normalise_backward,
      {.x = rows.view(x),
       .gamma = gamma,
       .mean_rstd = mean_rstd,
       .dy = rows.view(dy),
       .plus = rows.view(plus),
       .centred = dbeta.present(),
       .dx = rows.view(dx),
       .dgamma = dgamma,
       .dbeta = dbeta});
}

void normalise_heads(Context& context, const TensorView& x, const ConstTensorView& gamma, double epsilon) {
  const Argument argument{{"normalise_heads", context.device()}, "x", x};
  if (x.rank() != 4 || x.stride(3) != 1 || (x.shape(0) > 1 && x.stride(0) != x.shape(2) * x.stride(2))) {
    argument.refuse(ErrorCode::layout, "[B,H,T,D] within rows that follow one another");
  }
  const bool half = size_of(x.dtype()) == 2;
  if (!is_float(x.dtype()) || (half && !mixes_types(context))) argument.refuse(ErrorCode::dtype, "f32 or f64");
  argument.expect_memory();
  if (!(epsilon > 0)) throw Error(ErrorCode::value, argument.op, "epsilon: expected a positive number");
  const Argument factors{argument.op, "gamma", gamma};
  factors.expect_input({x.shape(3)}, half ? DType::f32 : x.dtype());
  factors.expect_last_stride_one();
  const TensorView rows = rows_of_heads(x);
  run(context, &Table::normalise,
      {.x = rows, .gamma = gamma, .beta = {}, .epsilon = epsilon, .y = rows, .mean_rstd = {}});
}

}  // namespace polyhead::ops
