#include "ops/dropout.h"

#include "backend/dropout.h"
#include "core/context.h"
#include "ops/check.h"
#include "ops/resolve.h"

namespace polyhead::ops {

void drop(Context& context, const ConstTensorView& x, const Dropout& dropout, const TensorView& y) {
  constexpr std::string_view kOp = "drop";
  const Argument input{kOp, "x", x}, output{kOp, "y", y};
  if (x.rank() != 3) input.refuse(ErrorCode::shape, "[B,T,C]");
  if (!is_float(x.dtype())) input.refuse(ErrorCode::dtype, "a float type");
  input.expect_input(x.shape(), x.dtype());
  output.expect_input(x.shape(), x.dtype());
  for (const Argument& argument : {input, output}) argument.expect_last_stride_one();
  check_dropout(kOp, "dropout", dropout);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::drop(team, {x, y, dropout});
}

}  // namespace polyhead::ops
