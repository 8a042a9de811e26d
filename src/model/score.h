// How well a model does on sequences whose answers are known.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "polyhead/model.h"

namespace polyhead::model {

// Per sequence: the mean loss over the targets that count, and how many were right.
struct SequenceScores {
  std::vector<double> losses;
  std::vector<double> logits;  // of what is right, above the mean of all
  std::vector<std::int64_t> right, counts;

  void add(const SequenceScores& more, std::size_t begin, std::size_t end);  // its sequences [begin, end)

  double mean_loss() const;  // over sequences
  double accuracy() const;   // over targets; what has no finite loss is not right

  // As below, of the losses and logits of `what`, "the model".
  void expect_finite(const std::string& what) const;
};

// Throws Error (value) if one of the numbers is none: `what` ("the model: loss") overflows, and nothing can be said of
// it.
void expect_finite(std::span<const double> numbers, const std::string& what);

// Throws Error unless the examples have the shapes that the model takes, and it has answers at all.
void expect_examples(std::string_view op, const Config& config, const std::vector<Examples>& examples);

// A pass over all examples, with gates and shifts as PassOptions takes them.
SequenceScores score(Context& context, const Transformer& model, const std::vector<Examples>& examples,
                     std::vector<Tensor>* gates = nullptr, std::vector<Tensor>* shifts = nullptr);

// Of what the last layer leaves of examples, x [B,T,C], on a tape that does not record: logits are made for some rows
// at a time and not kept.
void add_scores(autograd::Tape& tape, const Transformer& model, autograd::Variable x, const Examples& examples,
                SequenceScores& to);
// Of logits [B,(T,)V] that are there.
void add_scores(autograd::Tape& tape, autograd::Variable logits, const Examples& examples, SequenceScores& to);

// Of an encoder: per sequence the mean of what it leaves of every token that exists, [C].
std::vector<std::vector<double>> embeddings(Context& context, const Transformer& model,
                                            const std::vector<Examples>& examples, std::vector<Tensor>* gates = nullptr,
                                            std::vector<Tensor>* shifts = nullptr);
// Of what its last layer leaves.
void add_embeddings(autograd::Tape& tape, const Transformer& model, autograd::Variable x,
                    const ConstTensorView& lengths, std::vector<std::vector<double>>& to);

}  // namespace polyhead::model
