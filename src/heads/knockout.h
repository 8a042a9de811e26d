// Passes without one head each, which begin at the layer of that head: what lies below is the same for all of them.
#pragma once

#include <functional>
#include <vector>

#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::heads {

// Each head is taken out with nothing in its place and then, if there are means, with its mean: those of a head come
// after each other, heads in the order of model::all_heads. The whole model comes last, as a knockout of nothing. A
// visit has `count` of them, from `first` on.
struct KnockedOut {
  autograd::Tape& tape;
  autograd::Variable x;  // [count*B,T,C]: what the last layer leaves of the sequences, once for each knockout
  Examples examples;     // their targets and lengths as often
  std::size_t first, count;
};

// All knockouts in their order, each on all examples in theirs. `means`, if given, as mean_outputs gives them;
// `on_head` is told how many heads are done.
void knock_out_each(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                    const std::vector<Tensor>* means, ops::Products products,
                    const std::function<void(const KnockedOut&)>& visit,
                    const std::function<void(std::int64_t)>& on_head);

}  // namespace polyhead::heads
