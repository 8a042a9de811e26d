// How well a model does on sequences whose answers are known.
#pragma once

#include <vector>

#include "model/transformer.h"
#include "polyhead/model.h"

namespace polyhead::model {

// Per sequence: the mean loss over the targets that count, and how many were right.
struct SequenceScores {
  std::vector<double> losses;
  std::vector<double> logits;  // of what is right, above the mean of all
  std::vector<std::int64_t> right, counts;

  double mean_loss() const;  // over sequences
  double accuracy() const;   // over targets; what has no finite loss is not right

  // Throws Error (value) if the loss of a sequence is no number: `what` overflows, and nothing can be said of it.
  void expect_finite(const std::string& what) const;
};

// A pass over all examples, with gates and shifts as PassOptions takes them.
SequenceScores score(Context& context, const Transformer& model, const std::vector<Examples>& examples,
                     std::vector<Tensor>* gates = nullptr, std::vector<Tensor>* shifts = nullptr);

// Of an encoder: per sequence the mean of what it leaves of every token that exists, [C].
std::vector<std::vector<double>> embeddings(Context& context, const Transformer& model,
                                            const std::vector<Examples>& examples, std::vector<Tensor>* gates = nullptr,
                                            std::vector<Tensor>* shifts = nullptr);

}  // namespace polyhead::model
