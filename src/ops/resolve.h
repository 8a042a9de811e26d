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

AttentionShapes shapes_of(const backend::AttentionProblem& problem, const AttentionWants& wants);

// Checks that exactly the wanted outputs are there and fit, and puts them into the problem.
void attach_outputs(std::string_view op, const AttentionWants& wants, const AttentionOutputs& outputs,
                    backend::AttentionProblem& problem);

}  // namespace polyhead::ops
