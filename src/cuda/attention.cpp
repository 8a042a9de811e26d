// Attention on the GPU: which kernel takes a call.
#include "cuda/portable/attention.h"

#include <cstdint>

#include "cuda/kernels.h"
#include "cuda/portable/attention_mma.h"

namespace polyhead::cuda {
namespace {

// Kernels count rows, keys and columns in 32 bits; offsets have 64.
void expect_sizes(std::string_view op, const backend::AttentionProblem& problem) {
  expect_no_f64(op, problem.q);
  for (const std::int64_t size :
       {problem.sequences.queries, problem.sequences.keys, problem.heads, problem.head_dim, problem.value_dim}) {
    if (size < std::int64_t{1} << 30) continue;
    throw Error(ErrorCode::unsupported, op, "expected axes below 2^30, found " + std::to_string(size) + "; split it");
  }
}

}  // namespace

void attend(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  expect_sizes("attend", problem);
  portable::attend(executor, problem);
}

void attend_backward(CudaExecutor& executor, const backend::AttentionGradientProblem& problem) {
  expect_sizes("attend_backward", problem.forward);
  portable::attend_backward(executor, problem);
}

std::string explain(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  expect_sizes("explain", problem);
  std::string text = to_string(executor.device()) + ", sm_" + std::to_string(executor.queue().capability());
  const std::string objection = portable::objection_to_mma(problem);
  text += objection.empty() ? ", tensor cores (mma.sync)" : ", f32 arithmetic; no tensor cores: " + objection;
  if (!problem.weight_head_of.empty()) text += "; weights: a kernel of their own computes the logits again, in f32";
  if (problem.statistics_set != StatisticsSet::none) text += "; statistics: likewise";
  return text;
}

}  // namespace polyhead::cuda
