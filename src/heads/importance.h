// How much a model depends on each of its heads: by the gradient of its gate, and by knocking it out.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/ranks.h"
#include "model/head.h"
#include "model/score.h"
#include "polyhead/heads.h"

namespace polyhead::heads {

// The mean and Student's 95 % interval; for one value, that value.
Estimate estimate(const std::vector<double>& values);

// Of which heads it can be said that their absence, output 0, changes the loss: of those said so, one in twenty may be
// chance. Their intervals are over so many sequences.
std::vector<bool> damage_findings(const std::vector<HeadImportance>& heads, std::int64_t sequences);

// The functions below throw Error (value) if a loss, an embedding or a gradient is not finite: then nothing can be
// ranked.
//
// One backward pass per batch for all heads together. Heads in `gone` give nothing or, with means (from mean_outputs),
// their means. `whole`, if given, receives the scores of that model.
std::vector<HeadImportance> gradient_importance(Context& context, const model::Transformer& model,
                                                const std::vector<Examples>& examples,
                                                const std::vector<HeadId>& gone = {},
                                                const std::vector<Tensor>* means = nullptr,
                                                model::SequenceScores* whole = nullptr);

struct DamageOptions {
  bool means = true;  // also try the head's mean in its place, which doubles the time; else `mean` stays 0
  // coarse: damage is the difference of two losses that are both coarse; gradients and `whole` stay exact.
  ops::Products products = ops::Products::exact;
  std::function<void(std::int64_t)> on_head{};  // receives how many heads are done
  // Which heads, in which order; those of a layer that fit into one pass go together. Absent: all, layer by layer,
  // which takes less memory.
  std::optional<std::vector<HeadId>> order = {};
  std::function<bool()> go_on{};  // asked before each pass; once it says no, the rest is left out
  Ranks* ranks = &alone();        // that share the passes; all of them get all results
};
// Adds to `heads`, in the order of all_heads: a pass per head and kind, from the head's layer on. What is left out is
// NaN: damage, accuracy and logit.
void add_damage(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                const DamageOptions& options, std::vector<HeadImportance>& heads);
// Both, gradient and damage.
std::vector<HeadImportance> importance(Context& context, const model::Transformer& model,
                                       const std::vector<Examples>& examples, const DamageOptions& options = {},
                                       model::SequenceScores* whole = nullptr);

// Of an encoder, which gives no answers: the zero and mean damage are the cosine distance of a sequence's embedding;
// the rest stays 0.
std::vector<HeadImportance> embedding_importance(Context& context, const model::Transformer& model,
                                                 const std::vector<Examples>& examples,
                                                 const DamageOptions& options = {});

// 1 - cos of each pair of embeddings. Throws Error (value) if one is not finite; `what` names the model of the second
// ones.
std::vector<double> cosine_distances(const std::vector<std::vector<double>>& a,
                                     const std::vector<std::vector<double>>& b, const std::string& what);

// Per layer [H*D]: the mean output of every head over all tokens that exist.
std::vector<Tensor> mean_outputs(Context& context, const model::Transformer& model,
                                 const std::vector<Examples>& examples);
// Per layer [C]: what a layer's output gains if these heads give their means instead of nothing; absent if it has none
// of them.
std::vector<Tensor> shifts_of(const model::Transformer& model, const std::vector<Tensor>& means,
                              const std::vector<HeadId>& heads);

// Whether the damage of a head was measured, or left out.
bool has_damage(const HeadImportance& head);

// Spearman's rank correlation; equal values share a rank; NaN if a value is NaN.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace polyhead::heads
