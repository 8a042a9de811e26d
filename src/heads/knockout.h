// Passes without one head each, which begin at the layer of that head: the layers below are the same for all of them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/ranks.h"
#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::heads {

// Each head is replaced by nothing and then, if there are means, by its mean: two knock-outs, numbered in the order of
// model::all_heads. The whole model comes last, as a knock-out of nothing. A visit covers several of them.
struct KnockedOut {
  autograd::Tape& tape;
  autograd::Variable x;  // [n*B,T,C]: the last layer's output for the sequences, once for each of n knock-outs
  Examples examples;     // targets and lengths, repeated likewise
  const std::vector<std::size_t>& numbers;  // [n]
};

struct KnockOutOptions {
  const std::vector<Tensor>* means = nullptr;  // or from mean_outputs
  ops::Products products = ops::Products::exact;
  std::optional<std::vector<HeadId>> order = {};  // as in DamageOptions
  std::function<bool()> go_on{};                  // asked before each pass, but that of the whole model
  std::function<void(std::int64_t)> on_head{};    // receives how many heads are done, or begun on other ranks
};

// How many knock-outs one pass computes, if the largest of the examples have so many rows (B T).
std::int64_t knock_outs_at_once(std::int64_t rows);

// Visits the knock-outs, each on all examples in order; of several ranks each visits some.
void knock_out_each(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                    const KnockOutOptions& options, const std::function<void(const KnockedOut&)>& visit, Ranks& ranks);

}  // namespace polyhead::heads
