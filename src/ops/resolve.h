// From a caller's arguments to a kernel's problem: every default, and every check of attention that does not read
// tensors. Table::check_attention checks their values.
#pragma once

#include "kernels/attention.h"
#include "ops/check.h"

namespace polyhead::ops {

// The shapes that the wanted outputs have.
struct AttentionShapes {
  Dims output, lse, weights, statistics, row_statistics;  // logits have the shape of weights
  DType numbers = DType::f32;                             // of lse, logits and statistics
  DType weights_dtype = DType::f32;
};

// Checks inputs and options; throws Error if anything does not fit. Outputs are still absent in the result.
kernels::AttentionProblem resolve(const Op& op, const ConstTensorView& q, const ConstTensorView& k,
                                  const ConstTensorView& v, const AttentionOptions& options,
                                  const AttentionWants& wants);

// The same for the backward pass: also checks the gradients from above, the results of the forward pass, and the wants.
// Outputs are absent.
kernels::AttentionGradientProblem resolve_backward(Allocator& memory, const Op& op, const ConstTensorView& q,
                                                   const ConstTensorView& k, const ConstTensorView& v,
                                                   const AttentionOptions& options, const UpstreamGradients& upstream,
                                                   const GradientWants& wants, const ForwardResults& forward);

// Shapes and types of the gradients.
struct GradientShapes {
  Dims dq, dk, dv, dbias, dsink_logit, dgates;
  DType dtype, bias_dtype, numbers;
};
GradientShapes shapes_of(const kernels::AttentionGradientProblem& problem, const AttentionOptions& options);

// dbias as a view of [B,H,T,S] with stride 0 where the bias was broadcast.
TensorView broadcast_gradient(const Op& op, const kernels::AttentionGradientProblem& problem, const TensorView& dbias);

void check_dropout(std::string_view op, std::string_view name, const Dropout& dropout);
void check_output_dropout(std::string_view op, const Dropout& dropout);

// The number of keys of the longest sequence, the last size of a packed batch's weights: the only number that is read
// from a tensor to know a shape, and only if such weights or logits are wanted.
std::int64_t longest_keys(Allocator& memory, const ConstTensorView& cu_k);

// Whether the shapes depend on it.
inline bool needs_longest_keys(const kernels::AttentionProblem& problem, const AttentionWants& wants) {
  return problem.sequences.packed && (wants.weights || wants.logits != LogitStage::none);
}

// `longest` is that number, for the weights of a packed batch.
AttentionShapes shapes_of(const kernels::AttentionProblem& problem, const AttentionWants& wants,
                          std::int64_t longest = 0);

// Every tensor among the options and the wants: all that a call reads besides q, k and v.
std::vector<ConstTensorView> tensors_of(const AttentionOptions& options, const AttentionWants& wants = {});

// Checks that exactly the wanted outputs are present, fit, and are apart from the inputs and each other; puts them into
// the problem.
void attach_outputs(const Op& op, const AttentionOptions& options, const AttentionWants& wants,
                    const AttentionShapes& shapes, const AttentionOutputs& outputs, kernels::AttentionProblem& problem);

}  // namespace polyhead::ops
