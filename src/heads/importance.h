// How much a model hangs on each of its heads: by the gradient of its gate, and by taking it out.
#pragma once

#include <functional>
#include <vector>

#include "heads/head.h"
#include "model/score.h"

namespace polyhead::heads {

// A mean over sequences with its 95 % interval.
struct Estimate {
  double mean = 0, low = 0, high = 0;
};
// Student's interval; of one number it is that number.
Estimate estimate(const std::vector<double>& values);

struct Importance {
  HeadId id;
  double gradient = 0;    // mean over sequences of |d loss of the sequence / d gate|
  double normalised = 0;  // divided by the l2 norm of its layer's
  // What the loss of a sequence gains without the head: its output made 0, or made its mean over all tokens.
  Estimate zero, mean;
  double accuracy_loss = 0;  // accuracy with it minus without, output made 0
  Estimate logit;            // what it adds to the logit of the right answer, above the mean of all logits
};

// Both throw Error (value) if the loss or a gradient is no number: then there is nothing to rank by.
//
// One backward pass per batch for all heads together. Those that are `gone` give nothing meanwhile or, with means (as
// mean_outputs gives them), their means.
std::vector<Importance> gradient_importance(Context& context, model::Transformer& model,
                                            const std::vector<model::Examples>& examples,
                                            const std::vector<HeadId>& gone = {},
                                            const std::vector<Tensor>* means = nullptr);
// A pass per head and kind, besides; `on_head` is told how many heads are done.
std::vector<Importance> importance(Context& context, model::Transformer& model,
                                   const std::vector<model::Examples>& examples,
                                   const std::function<void(std::int64_t)>& on_head = {});

// Per layer [H*D]: the mean of what every head gives, over all tokens that exist.
std::vector<Tensor> mean_outputs(Context& context, model::Transformer& model,
                                 const std::vector<model::Examples>& examples);
// Per layer [C]: what the output of a layer gains if these heads give their means instead of nothing; absent for none.
std::vector<Tensor> shifts_of(const model::Transformer& model, const std::vector<Tensor>& means,
                              const std::vector<HeadId>& heads);

// Spearman's rank correlation; equal values share their ranks; NaN if a value is none.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace polyhead::heads
