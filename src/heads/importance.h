// How much a model hangs on each of its heads: by the gradient of its gate, and by taking it out.
#pragma once

#include <functional>
#include <vector>

#include "model/head.h"
#include "model/score.h"
#include "polyhead/heads.h"

namespace polyhead::heads {

// Student's interval; of one number it is that number.
Estimate estimate(const std::vector<double>& values);

// All three throw Error (value) if a loss, an embedding or a gradient is no number: then there is nothing to rank by.
//
// One backward pass per batch for all heads together. Those that are `gone` give nothing meanwhile or, with means (as
// mean_outputs gives them), their means. `whole`, if given, receives the scores of that model.
std::vector<HeadImportance> gradient_importance(Context& context, const model::Transformer& model,
                                                const std::vector<Examples>& examples,
                                                const std::vector<HeadId>& gone = {},
                                                const std::vector<Tensor>* means = nullptr,
                                                model::SequenceScores* whole = nullptr);

struct DamageOptions {
  bool means = true;  // besides nothing, the head's mean in its place, which takes as long again; else that stays 0
  // coarse: damage is the difference of two losses that are both made so; gradients and `whole` are exact.
  ops::Products products = ops::Products::exact;
  std::function<void(std::int64_t)> on_head{};  // is told how many heads are done
};
// To heads in the order of all_heads: a pass per head and kind, from the layer of the head on.
void add_damage(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                const DamageOptions& options, std::vector<HeadImportance>& heads);
// Both, gradient and damage.
std::vector<HeadImportance> importance(Context& context, const model::Transformer& model,
                                       const std::vector<Examples>& examples, const DamageOptions& options = {},
                                       model::SequenceScores* whole = nullptr);

// Of an encoder, which has no answers to lose: the zero and the mean damage are what the embedding of a sequence turns
// by, 1 - cos; the rest stays 0.
std::vector<HeadImportance> embedding_importance(Context& context, const model::Transformer& model,
                                                 const std::vector<Examples>& examples,
                                                 const DamageOptions& options = {});

// 1 - cos of each pair of embeddings. Throws Error (value) if one is no number; `what` the second ones are of.
std::vector<double> turns(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b,
                          const std::string& what);

// Per layer [H*D]: the mean of what every head gives, over all tokens that exist.
std::vector<Tensor> mean_outputs(Context& context, const model::Transformer& model,
                                 const std::vector<Examples>& examples);
// Per layer [C]: what the output of a layer gains if these heads give their means instead of nothing; absent for none.
std::vector<Tensor> shifts_of(const model::Transformer& model, const std::vector<Tensor>& means,
                              const std::vector<HeadId>& heads);

// Spearman's rank correlation; equal values share their ranks; NaN if a value is none.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace polyhead::heads
