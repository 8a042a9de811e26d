// The layer forward for callers that keep its weights packed.
#pragma once

#include "backend/gemm.h"
#include "polyhead/layer.h"

namespace polyhead {

// in_proj_weight as self-attention multiplies by it, and W_O.
struct PackedWeights {
  backend::PackedMatrix in_proj, out_proj;
};

namespace ops {

void multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
               const PackedWeights* packed, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
               const MultiHeadWants& wants, MultiHeadResults& results);

}  // namespace ops
}  // namespace polyhead
