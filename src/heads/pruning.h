// Taking heads out: which, in what order, until when; and out of the weights for good.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heads/importance.h"

namespace polyhead::heads {

// The model without these heads. What it computes is what the whole one computes with their gates shut or, with means
// (as mean_outputs gives them), with their outputs held at their means, which fold into the output's bias. A layer may
// lose all heads. Key/value heads go where the rest still is a regular group; else every head gets one of its own.
std::unique_ptr<model::Transformer> without_heads(const model::Transformer& model, const std::vector<HeadId>& heads,
                                                  const std::vector<Tensor>* means = nullptr);

struct PruneOptions {
  PruneOrder order = PruneOrder::iterative;
  std::uint64_t seed = 1;
  double budget = 0.01;                        // how much accuracy may be lost
  bool to_the_end = false;                     // go on when the budget is spent, for the whole curve
  const std::vector<Tensor>* means = nullptr;  // what heads that went give still; null: nothing
};

// Ranks by the gradient, or as the order says, on `ranking`, judges on `judging`: other sequences than it was ranked
// by. Heads that share a key/value head, of several in their layer, go together, ranked by their sum: a step each, of
// the same score. Throws Error (value) if a loss or a gradient is no number.
PruneCurve prune(Context& context, const model::Transformer& model, const std::vector<Examples>& ranking,
                 const std::vector<Examples>& judging, const PruneOptions& options,
                 const std::function<void(const PruneStep&)>& on_step = {});

}  // namespace polyhead::heads
