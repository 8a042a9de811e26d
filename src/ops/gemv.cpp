// gemv: check, call.
#include "ops/gemv.h"

#include "core/row_major.h"
#include "ops/call.h"
#include "ops/check.h"

namespace polyhead::ops {
namespace {

// [..,K], row-major, as [M,K].
template <class View>
View as_rows(const View& x) {
  const std::int64_t columns = x.shape(x.rank() - 1);
  return x.reshape({columns == 0 ? 0 : x.count() / columns, columns});
}

}  // namespace

bool gemv(Context& context, GemvInput input, const ConstTensorView& x, const ConstTensorView& gamma, double epsilon,
          const ConstTensorView& weight, const ConstTensorView& bias, const ConstTensorView& plus,
          const TensorView& y) {
  if (context.executor().kernels().gemv == nullptr) return false;
  if (!is_row_major(x) || !is_row_major(y) || (plus.present() && !is_row_major(plus))) return false;
  const Op op{"linear", context.device()};
  const bool gated = input == GemvInput::silu_gate || input == GemvInput::gelu_gate;
  const ConstTensorView rows = as_rows(x);
  const std::int64_t K = rows.shape(1) / (gated ? 2 : 1), N = y.shape(y.rank() - 1);
  Argument{op, "weight", weight}.expect_input({N, K}, weight.dtype());
  if (input == GemvInput::rms_norm) Argument{op, "gamma", gamma}.expect_input({K}, DType::f32);
  if (bias.present()) Argument{op, "bias", bias}.expect_input({N}, y.dtype());
  if (plus.present()) Argument{op, "plus", plus}.expect_input(y.shape(), y.dtype());
  return run(context, &Table::gemv,
             {.input = input,
              .x = rows,
              .gamma = gamma,
              .epsilon = epsilon,
              .weight = weight,
              .bias = bias,
              .plus = plus.present() ? as_rows(plus) : plus,
              .y = as_rows(y)});
}

}  // namespace polyhead::ops
