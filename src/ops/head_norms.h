// RMSNorm of the heads of q and k within the layer: y = x / rms(x) * gamma for every head's row.
#pragma once

#include <vector>

#include "ops/multihead_plan.h"

namespace polyhead::ops {

// q [B,H,T,D] and k [B,G,S,D].
struct QueryAndKey {
  TensorView q{}, k{};
};

// What a forward pass keeps for the way back, in buffers that follow those of the projections: q and k after the norm,
// [B,L,n*D] each, and the factors of their rows, [B*L*n,2]. None if the shape has no norms.
std::vector<Dims> kept_by_norms(const MultiHeadPlan& plan);

// In place, or into the buffers that keep them; where q and k are then. Nothing is done if the shape has no norms.
QueryAndKey normalise_heads(const Call& call, const MultiHeadPlan& plan, const MultiHeadViews& parameters,
                            const MultiHeadOptions& options, const ProjectionBuffers& projections,
                            const std::vector<TensorView>& kept);

// The gradients of q and k before the norm, in the place of those after it, and of gamma; from what the forward pass
// kept.
void normalise_heads_backward(const Call& call, const MultiHeadPlan& plan, const MultiHeadViews& parameters,
                              const Projections& forward, const ProjectionBuffers& dparts,
                              const MultiHeadParameters<TensorView>& dparameters);

}  // namespace polyhead::ops
