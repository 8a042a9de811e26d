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
  std::vector<double> logits;  // of the right answer, above the mean of all
  std::vector<std::int64_t> right, counts;

  void add(const SequenceScores& more, std::size_t begin, std::size_t end);  // its sequences [begin, end)

  double mean_loss() const;  // over targets, as perplexity has it: e to the power of it
  double accuracy() const;   // over targets; one without a finite loss counts as wrong

  // As below, for the losses and logits of `what` ("the model").
  void expect_finite(const std::string& what) const;

  // For another rank, which has the same numbers then.
  std::string packed() const;
  static SequenceScores unpacked(const std::string& bytes);
};

// Throws Error (value) if a number is not finite: `what` ("the model: loss") has overflowed.
void expect_finite(std::span<const double> numbers, const std::string& what);

// Throws Error unless the examples have the shapes that the model takes; an encoder, which gives no answers, is
// refused.
void expect_examples(std::string_view op, const Config& config, const std::vector<Examples>& examples);

// A pass over all examples, with gates and shifts as PassOptions takes them.
SequenceScores score(Context& context, const Transformer& model, const std::vector<Examples>& examples,
                     std::vector<Tensor>* gates = nullptr, std::vector<Tensor>* shifts = nullptr);

// Scores from the last layer's output x [B,T,C], on a tape that does not record: logits are made for some rows at a
// time and not kept.
void add_scores(autograd::Tape& tape, const Transformer& model, autograd::Variable x, const Examples& examples,
                SequenceScores& to);
// Scores from logits [B,(T,)V].
void add_scores(autograd::Tape& tape, autograd::Variable logits, const Examples& examples, SequenceScores& to);

// Of an encoder: per sequence the mean [C] of its output over the tokens that exist.
std::vector<std::vector<double>> embeddings(Context& context, const Transformer& model,
                                            const std::vector<Examples>& examples, std::vector<Tensor>* gates = nullptr,
                                            std::vector<Tensor>* shifts = nullptr);
// The same from the last layer's output x [B,T,C].
void add_embeddings(autograd::Tape& tape, const Transformer& model, autograd::Variable x,
                    const ConstTensorView& lengths, std::vector<std::vector<double>>& to);

}  // namespace polyhead::model
