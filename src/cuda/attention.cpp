// Attention on the GPU: which kernel takes a call.
#include "cuda/portable/attention.h"

#include <cstdint>

#include "cuda/kernels.h"
#include "cuda/portable/attention_mma.h"
#include "cuda/portable/decode.h"
#include "cuda/sm90/attention.h"

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
  if (const std::int64_t p = problem.sequences.position; p >= std::int64_t{1} << 30 || -p >= std::int64_t{1} << 30) {
    throw Error(ErrorCode::unsupported, op, "expected positions below 2^30, found " + std::to_string(p));
  }
}

// Why Hopper's own kernels do not take a call, forward or backward, or nothing.
template <class Problem>
std::string objection_to_sm90(CudaExecutor& executor, const Problem& problem) {
  if (executor.queue().capability() != 90) return "no Hopper GPU";
  return sm90::objection(problem);
}

// Output, lse and statistics. Weights and logits have a kernel of their own, and so have statistics where there are
// rarer options.
void attend_sm90(CudaExecutor& executor, backend::AttentionProblem problem) {
  backend::AttentionProblem rest = problem;
  if (portable::rarer_option(problem).empty()) {
    rest.statistics = rest.row_statistics = {};
  } else {
    problem.statistics_set = StatisticsSet::none;
  }
  const auto bytes = static_cast<std::int64_t>(sm90::extra_bytes(problem));
  sm90::attend({executor.stream(), executor.queue().processors(), executor.counters(1),
                bytes == 0 ? nullptr : executor.workspace<std::byte>(Workspace::statistics, bytes)},
               problem);
  portable::describe_heads(executor, rest);
}

// The output and lse of the forward pass, if its caller has not kept them.
void attend_again(CudaExecutor& executor, backend::AttentionGradientProblem& problem) {
  backend::AttentionProblem forward = problem.forward;
  const Dims rows{forward.q.shape(0), forward.heads, forward.sequences.queries};
  const Dims shape{rows[0], rows[1], rows[2], forward.value_dim};
  const auto bytes = count_of(shape) * static_cast<std::int64_t>(size_of(forward.dtype));
  auto* memory = executor.workspace<std::byte>(Workspace::forward, bytes + count_of(rows) * 4);
  forward.output = TensorView(memory, forward.dtype, shape, contiguous_strides(shape), executor.device());
  forward.lse = TensorView(memory + bytes, DType::f32, rows, contiguous_strides(rows), executor.device());
  attend(executor, forward);
  problem.output = forward.output;
  problem.lse = forward.lse;
}

}  // namespace

void attend(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  expect_sizes("attend", problem);
  if (portable::objection_to_decode(executor, problem).empty()) {
    portable::decode(executor, problem);
    portable::describe_heads(executor, problem);
  } else if (objection_to_sm90(executor, problem).empty()) {
    attend_sm90(executor, problem);
  } else {
    portable::attend(executor, problem);
  }
}

void attend_backward(CudaExecutor& executor, const backend::AttentionGradientProblem& problem) {
  expect_sizes("attend_backward", problem.forward);
  const bool hopper = objection_to_sm90(executor, problem).empty();
  if (!hopper && !portable::objection_to_mma(executor, problem).empty()) {
    return portable::attend_backward_f32(executor, problem);
  }
  backend::AttentionGradientProblem known = problem;
  if (!problem.output.present()) attend_again(executor, known);
  if (!hopper) return portable::attend_backward_mma(executor, known);
  const auto bytes = static_cast<std::int64_t>(sm90::extra_bytes(known));
  sm90::attend_backward({executor.stream(), executor.queue().processors(), executor.counters(1),
                         executor.workspace<std::byte>(Workspace::gradient, bytes)},
                        known);
}

std::string explain(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  expect_sizes("explain", problem);
  std::string text = to_string(executor.device()) + ", sm_" + std::to_string(executor.queue().capability());
  const std::string to_mma = portable::objection_to_mma(executor, problem),
                    to_sm90 = objection_to_sm90(executor, problem);
  const bool few = portable::objection_to_decode(executor, problem).empty(), hopper = !few && to_sm90.empty();
  if (few) {
    text += ", tensor cores (mma.sync); few queries: keys and values read once for all heads that share them";
  } else if (hopper) {
    text += ", tensor cores (wgmma), keys and values brought by the copy engine";
  } else {
    text += to_mma.empty() ? ", tensor cores (mma.sync)" : ", f32 arithmetic; no tensor cores: " + to_mma;
    text += "; not Hopper's kernel: " + to_sm90;
  }
  if (!problem.weight_head_of.empty()) text += "; weights or logits: a kernel of their own computes them, in f32";
  if (problem.statistics_set != StatisticsSet::none) {
    text += hopper && portable::rarer_option(problem).empty()
                ? "; statistics: in the same walk over the keys"
                : "; statistics: a kernel of their own computes the logits again, in f32";
  }
  return text;
}

}  // namespace polyhead::cuda
