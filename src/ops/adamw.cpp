#include "ops/adamw.h"

#include "ops/call.h"
#include "ops/rows.h"

namespace polyhead::ops {

void adamw(Context& context, const AdamW& rule, std::int64_t step, double factor,
           std::span<const kernels::AdamWTensor> tensors) {
  const Op op{"adamw", context.device()};
  if (step < 1) throw Error(ErrorCode::value, op, "step: expected 1 or more, found " + std::to_string(step));
  if (tensors.empty()) return;
  for (const kernels::AdamWTensor& tensor : tensors) {
    const RowMajor rows(op, "weight", tensor.weight);
    Argument{op, "weight", tensor.weight}.expect_dtype(tensors[0].weight.dtype());
    rows.expect_like("first moment", tensor.first);
    rows.expect_like("second moment", tensor.second);
    rows.expect_like("gradient", tensor.gradient);
  }
  run(context, &Table::adamw, {tensors, factor, rule.rate, rule.beta1, rule.beta2, rule.epsilon, rule.decay, step});
}

void sums_of_squares(Context& context, std::span<const ConstTensorView> tensors, const TensorView& sums) {
  const Op op{"sums_of_squares", context.device()};
  if (tensors.empty()) return;
  for (const ConstTensorView& x : tensors) {
    const RowMajor rows(op, "x", x);
    Argument{op, "x", x}.expect_dtype(tensors[0].dtype());
  }
  const Argument output{op, "sums", sums};
  output.expect_input({static_cast<std::int64_t>(tensors.size())}, DType::f64);
  output.expect_last_stride_one();
  run(context, &Table::sums_of_squares, tensors, sums);
}

}  // namespace polyhead::ops
