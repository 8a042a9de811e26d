// sample: check, call.
#include "ops/sample.h"

#include "ops/call.h"
#include "ops/check.h"

namespace polyhead::ops {

void sample(Context& context, std::string_view name, const ConstTensorView& logits, const SampleOptions& options,
            const ConstTensorView& draws, const TensorView& tokens) {
  const Op op{name, context.device()};
  const Argument input{op, "logits", logits};
  constexpr std::int64_t kMost = 1 << 19;  // weights are summed as whole numbers
  if (logits.rank() != 2 || logits.shape(1) < 1 || logits.shape(1) > kMost) {
    input.refuse(ErrorCode::shape, "[B,V] with V from 1 to " + std::to_string(kMost));
  }
  input.expect_dtype(DType::f32);
  input.expect_memory();
  input.expect_last_stride_one();
  const Dims each{logits.shape(0)};
  if (options.temperature > 0) Argument{op, "draws", draws}.expect_input(each, DType::f64);
  const ConstTensorView others[] = {logits, draws};
  Argument{op, "tokens", tokens}.expect_output(true, each, DType::i32, others);
  run(context, &Table::sample, op, {logits, options.temperature, options.top_k, options.top_p, draws, tokens});
}

}  // namespace polyhead::ops
