// Passes without one head each, which begin at the layer of that head: the layers below are the same for all of them.
#pragma once

#include <functional>
#include <vector>

#include "core/ranks.h"
#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::heads {

// Each head is replaced by nothing and then, if there are means, by its mean; heads come in the order of
// model::all_heads. The whole model comes last, as a knock-out of nothing. A visit covers `count` knock-outs from
// number `first` on.
struct KnockedOut {
  autograd::Tape& tape;
  autograd::Variable x;  // [count*B,T,C]: the last layer's output for the sequences, once per knock-out
  Examples examples;     // targets and lengths, repeated likewise
  std::size_t first, count;
};

// How many knock-outs one pass computes, if the largest of the examples have so many rows (B T).
std::int64_t knock_outs_at_once(std::int64_t rows);

// Visits all knock-outs in order, each on all examples in order; of several ranks each visits some. `means`: null, or
// from mean_outputs. `on_head` receives how many heads are done, or begun on other ranks.
void knock_out_each(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                    const std::vector<Tensor>* means, ops::Products products,
                    const std::function<void(const KnockedOut&)>& visit,
                    const std::function<void(std::int64_t)>& on_head, Ranks& ranks);

}  // namespace polyhead::heads
