// From what the caller said to what a kernel needs: every check of attention, and every default.
#pragma once

#include "backend/attention.h"

namespace polyhead::ops {

// The shapes that the wanted outputs have.
struct AttentionShapes {
  Dims output, lse, weights, statistics, row_statistics;
  DType numbers = DType::f32;  // of lse and statistics
  DType weights_dtype = DType::f32;
};

// Checks inputs and options; throws Error if anything does not fit. Outputs are still absent in the result.
backend::AttentionProblem resolve(std::string_view op, const ConstTensorView& q, const ConstTensorView& k,
                                  const ConstTensorView& v, const AttentionOptions& options,
                                  const AttentionWants& wants);

// The same for the backward pass: also checks what arrives, what the forward pass left, and the wants. Outputs are
// absent.
backend::AttentionGradientProblem resolve_backward(std::string_view op, const ConstTensorView& q,
                                                   const ConstTensorView& k, const ConstTensorView& v,
                                                   const AttentionOptions& options, const UpstreamGradients& upstream,
                                                   const GradientWants& wants, const ForwardResults& forward);

// Shapes and types of the gradients of optional inputs.
struct GradientShapes {
  Dims dq, dk, dv, dbias, dsink_logit, dgates;
  DType dtype, bias_dtype, numbers;
};
GradientShapes shapes_of(const backend::AttentionGradientProblem& problem, const AttentionOptions& options);

// dbias as a view of [B,H,T,S] with stride 0 where the bias was broadcast.
TensorView broadcast_gradient(std::string_view op, const backend::AttentionGradientProblem& problem,
                              const TensorView& dbias);

void check_dropout(std::string_view op, std::string_view name, const Dropout& dropout);

AttentionShapes shapes_of(const backend::AttentionProblem& problem, const AttentionWants& wants);

// Checks that exactly the wanted outputs are there and fit, and puts them into the problem.
void attach_outputs(std::string_view op, const AttentionWants& wants, const AttentionOutputs& outputs,
                    backend::AttentionProblem& problem);

}  // namespace polyhead::ops
