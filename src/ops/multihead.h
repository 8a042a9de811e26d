// The layer forward for callers that keep its weights packed, and backward for those that learn nothing.
#pragma once

#include "backend/gemm.h"
#include "polyhead/layer.h"

namespace polyhead {

// in_proj_weight as self-attention multiplies by it, and W_O.
struct PackedWeights {
  backend::PackedMatrix in_proj, out_proj;
};

namespace ops {

// Null where they were not packed.
struct PackedProjections {
  const backend::PackedMatrix *in = nullptr, *out = nullptr;
};
void multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
               const PackedProjections& packed, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
               const MultiHeadWants& wants, MultiHeadResults& results);

// `learns`: with the gradients of the parameters. Without them those of norms alone are made.
void multihead_backward(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                        const MultiHeadInputs& inputs, const MultiHeadOptions& options, const MultiHeadResults& forward,
                        const UpstreamGradients& upstream, const GradientWants& wants, bool learns,
                        MultiHeadGradients& gradients);

}  // namespace ops
}  // namespace polyhead
