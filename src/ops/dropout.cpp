#include "ops/dropout.h"

#include "ops/call.h"
#include "ops/check.h"
#include "ops/resolve.h"

namespace polyhead::ops {

void drop(Context& context, const ConstTensorView& x, const Dropout& dropout, const TensorView& y) {
  const Op op{"drop", context.device()};
  const Argument input{op, "x", x}, output{op, "y", y};
  if (x.rank() != 3) input.refuse(ErrorCode::shape, "[B,T,C]");
  if (!is_float(x.dtype())) input.refuse(ErrorCode::dtype, "a float type");
  input.expect_input(x.shape(), x.dtype());
  output.expect_input(x.shape(), x.dtype());
  output.expect_writable_strides();
  for (const Argument& argument : {input, output}) argument.expect_last_stride_one();
  check_dropout(op, "dropout", dropout);
  run(context, &Table::drop, {x, y, dropout});
}

}  // namespace polyhead::ops
