// RMSNorm of the heads of q and k within the layer: y = x / rms(x) * gamma for every head's row.
#pragma once

#include <vector>

#include "ops/multihead_plan.h"

namespace polyhead::ops {

// q [B,H,T,D] and k [B,G,S,D].
struct QueryAndKey {
  TensorView q{}, k{};
};

// What a forward pass keeps for the backward pass, in buffers that follow those of the projections: q and k after the
// norm, [B,L,n*D] each, and mean and rstd of their rows, [B*L*n,2] each. None if the shape has no norms.
std::vector<Dims> kept_by_norms(const MultiHeadPlan& plan);

// Normalises q and k in place, or into the buffers that keep them, and returns where they are. Does nothing if the
// shape has no norms.
QueryAndKey normalise_heads(const Call& call, const MultiHeadPlan& plan, const MultiHeadViews& parameters,
                            const MultiHeadOptions& options, const ProjectionBuffers& projections,
                            const std::vector<TensorView>& kept);

// Turns the gradients of q and k after the norm into those before it, in place, and computes those of gamma, from what
// the forward pass kept.
void normalise_heads_backward(const Call& call, const MultiHeadPlan& plan, const MultiHeadViews& parameters,
                              const Projections& forward, const ProjectionBuffers& dparts,
                              const MultiHeadParameters<TensorView>& dparameters);

}  // namespace polyhead::ops
