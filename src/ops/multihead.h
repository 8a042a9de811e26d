// The layer's forward pass with packed weights, and its backward pass with or without gradients of parameters.
#pragma once

#include "kernels/gemm.h"
#include "ops/shared_pass.h"
#include "polyhead/layer.h"

namespace polyhead {

// in_proj_weight as self-attention multiplies by it, and W_O.
struct PackedWeights {
  kernels::PackedMatrix in_proj, out_proj;
};

namespace ops {

// In a shared pass, every rank has the output and all heads, but of projections and lse its own heads alone; and all
// gradients but those of weights, see SharedPass::complete.

// Null if they were not packed.
struct PackedProjections {
  const kernels::PackedMatrix *in = nullptr, *out = nullptr;
};
// A residual stream that the layer's output is added to, and which gives the sum its type: `plus` [B,T,C], row-major;
// `bias`: out_proj_bias in that type, if there is one. There can be no dropout of the output then.
struct Residual {
  ConstTensorView plus{}, bias{};
};
void multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
               const PackedProjections& packed, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
               const MultiHeadWants& wants, const Residual& residual, MultiHeadResults& results,
               SharedPass* shared = nullptr);

// Which gradients of parameters are computed, and where: all or only those of norms, in the caller's memory if it is
// given, else in MultiHeadGradients. Of an input of 16 bits they are f32.
struct ParameterGradients {
  bool all = true;
  MultiHeadParameters<TensorView> into{};
};
void multihead_backward(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                        const MultiHeadInputs& inputs, const MultiHeadOptions& options, const MultiHeadResults& forward,
                        const UpstreamGradients& upstream, const GradientWants& wants, const ParameterGradients& learnt,
                        MultiHeadGradients& gradients, SharedPass* shared = nullptr);

}  // namespace ops
}  // namespace polyhead
