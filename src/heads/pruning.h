// Removing heads: which, in what order, until when; and out of the weights for good.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heads/importance.h"

namespace polyhead::heads {

// The model without these heads. It computes what the whole model does with their gates shut or, with means (from
// mean_outputs), with their outputs held at their means, which fold into the output's bias. A layer may lose all heads.
// Unused key/value heads go if the rest still form equal groups; otherwise every remaining head gets its own.
std::unique_ptr<model::Transformer> without_heads(const model::Transformer& model, const std::vector<HeadId>& heads,
                                                  const std::vector<Tensor>* means = nullptr);

struct PruneOptions {
  PruneOrder order = PruneOrder::iterative;
  std::uint64_t seed = 1;
  double budget = 0.01;                        // how much accuracy may be lost
  bool to_the_end = false;                     // go on when the budget is spent, for the whole curve
  const std::vector<Tensor>* means = nullptr;  // what removed heads still give; null: nothing
  Ranks* ranks = &alone();                     // share the ranking by damage, and come to the same curve
};

// Ranks on `ranking`, as the order says, and judges on `judging`, which should be other sequences. In a layer with
// several key/value heads, the heads that share one go together, ranked by the sum of their importance: a step each,
// with the same score. Throws Error (value) if a loss or a gradient is not finite.
PruneCurve prune(Context& context, const model::Transformer& model, const std::vector<Examples>& ranking,
                 const std::vector<Examples>& judging, const PruneOptions& options,
                 const std::function<void(const PruneStep&)>& on_step = {});

}  // namespace polyhead::heads
