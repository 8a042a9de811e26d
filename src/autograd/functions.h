// Ops on a tape: each computes now and says how its gradients come back.
#pragma once

#include <optional>

#include "autograd/tape.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "polyhead/layer.h"

namespace polyhead::autograd {

// Results have the type of x, or the one that is asked for; x's gradient has x's type. Where x has 16 bits, products
// read rounded copies of their parameters; the parameters' gradients are not rounded.

// y [..,N] = x [..,K] W^T + b.
Variable linear(Tape& tape, Variable x, Variable weight, std::optional<Variable> bias = {},
                std::optional<DType> dtype = {});
// onto + x W^T + b, in the type of `onto`.
Variable linear_onto(Tape& tape, Variable onto, Variable x, Variable weight, std::optional<Variable> bias);
// LayerNorm with beta, RMSNorm without.
Variable normalise(Tape& tape, Variable x, Variable gamma, std::optional<Variable> beta, double epsilon,
                   std::optional<DType> dtype = {});
Variable as(Tape& tape, Variable x, DType dtype);  // x, in another type
// linear(normalise(x)), whose norm has the type `inner`; without rounding it where one kernel does both, on a tape that
// does not record.
Variable linear_of_norm(Tape& tape, Variable x, Variable gamma, std::optional<Variable> beta, double epsilon,
                        DType inner, Variable weight, std::optional<Variable> bias, std::optional<DType> dtype = {});
// f(x W^T + b) for an f that has a backward and no factor, such as gelu; the gradient of b is summed where that of f is
// formed.
Variable linear_gelu(Tape& tape, Variable x, Variable weight, std::optional<Variable> bias, ops::Elementwise f);
// y [..,F] = f(a) b for x [..,2F] = [a | b].
Variable gate(Tape& tape, Variable x, ops::Gate kind);
// linear_onto(gate(x)), likewise.
Variable linear_of_gate_onto(Tape& tape, Variable onto, Variable x, ops::Gate kind, Variable weight,
                             std::optional<Variable> bias);
Variable scale(Tape& tape, Variable x, double factor);  // factor x
Variable softcap(Tape& tape, Variable x, double cap);   // cap tanh(x / cap)
Variable add(Tape& tape, Variable a, Variable b);
// x [..,C] + row [C].
Variable add_to_rows(Tape& tape, Variable x, Variable row);
// x [B,T,C] after dropout; x itself if p is 0.
Variable drop(Tape& tape, Variable x, const Dropout& dropout);

// Rows of table [V,C] at tokens i32 [B,T], plus the first rows of positions: [B,T,C]. The tokens must live until the
// tape is cleared.
Variable embed(Tape& tape, Variable table, const ConstTensorView& tokens, std::optional<Variable> positions = {});
// The mean over the first lengths[b] tokens (absent: all): [B,C] from [B,T,C].
Variable pool(Tape& tape, Variable x, const ConstTensorView& lengths);

// What a layer keeps from its forward to its backward pass; the memory is reused from step to step.
struct MultiHeadState {
  MultiHeadResults forward;      // its output includes what it was added to
  MultiHeadGradients gradients;  // dgates [B,H] among them, if they were wanted
};
// The layer of self-attention, plus `onto` if it is given, which the output then has the type of. Its parameters may
// serve one layer per tape; those that the shape does not have are null.
Variable multihead(Tape& tape, const MultiHeadShape& shape, const MultiHeadParameters<Parameter*>& parameters,
                   Variable x, const MultiHeadOptions& options, const MultiHeadWants& wants, bool gate_gradients,
                   MultiHeadState& state, std::optional<Variable> onto = {});

// A loss that a GPU may still be computing; to be read before the tape is cleared.
class Loss {
 public:
  Loss(Context& context, const ConstTensorView& totals) : context_(&context), totals_(totals) {}
  ops::CrossEntropy read() const { return ops::read(*context_, totals_); }

 private:
  Context* context_;
  ConstTensorView totals_;
};

// The loss of logits [..,V] against classes i32 [..]; a negative one leaves its row out. Sends the logits' gradient.
Loss cross_entropy(Tape& tape, Variable logits, const ConstTensorView& targets, ops::Share share = ops::Share::all);

}  // namespace polyhead::autograd
