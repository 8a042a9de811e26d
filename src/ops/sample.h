// Draws of the next tokens from their logits; kernels/sample.h says how.
#pragma once

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

struct SampleOptions {
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
};

// tokens i32 [B] from logits f32 [B,V]. draws f64 [B], in [0,1), may be absent with temperature 0. Logits that are not
// finite are an error in the name of `op`, here or where the device is waited for.
void sample(Context& context, std::string_view op, const ConstTensorView& logits, const SampleOptions& options,
            const ConstTensorView& draws, const TensorView& tokens);

}  // namespace polyhead::ops
