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

// bf16 tensors in the places of f32 ones, [B,H,T,D] with the heads of a token side by side.
class Rounded {
 public:
  explicit Rounded(CudaExecutor& executor) : executor_(executor) {}

  // Is given first everything that will be asked for.
  void reserve(std::initializer_list<ConstTensorView> likes) {
    std::int64_t bytes = 0;
    for (const ConstTensorView& like : likes) bytes += bytes_of(like);
    next_ = executor_.workspace<std::byte>(Workspace::rounded, bytes);
  }
  TensorView place(const ConstTensorView& like) {
    const Dims& shape = like.shape();
    const std::int64_t row = shape[1] * shape[3];
    const TensorView made(next_, DType::bf16, shape, {shape[2] * row, shape[3], row, 1}, executor_.device());
    next_ += bytes_of(like);
    return made;
  }
  TensorView copy_of(const ConstTensorView& f32) {
    const TensorView made = place(f32);
    copy(executor_, f32, made);
    return made;
  }

 private:
  static std::int64_t bytes_of(const ConstTensorView& like) { return (like.count() * 2 + 255) / 256 * 256; }

  CudaExecutor& executor_;
  std::byte* next_ = nullptr;
};

// Whether f32 operands are rounded to bf16, for Hopper's kernels.
bool rounds(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  const std::int64_t D = problem.head_dim;
  return executor.float32_products == Float32Products::bf16 && executor.queue().capability() == 90 &&
         problem.dtype == DType::f32 && problem.k.dtype() == DType::f32 && problem.q.count() > 0 &&
         problem.k.count() > 0 && problem.value_dim == D && (D == 64 || D == 128 || D == 256);
}

backend::AttentionProblem rounded(Rounded& memory, backend::AttentionProblem problem) {
  problem.dtype = DType::bf16;
  problem.q = memory.copy_of(problem.q);
  problem.k = memory.copy_of(problem.k);
  problem.v = memory.copy_of(problem.v);
  return problem;
}

void attend_rounded(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  Rounded memory(executor);
  memory.reserve({problem.q, problem.k, problem.v, problem.output});
  backend::AttentionProblem with_bf16 = rounded(memory, problem);
  with_bf16.output = memory.place(problem.output);
  attend(executor, with_bf16);
  copy(executor, with_bf16.output, problem.output);
}

void attend_backward_rounded(CudaExecutor& executor, const backend::AttentionGradientProblem& problem) {
  const backend::AttentionProblem& forward = problem.forward;
  Rounded memory(executor);
  memory.reserve(
      {forward.q, forward.k, forward.v, problem.output, problem.doutput, problem.dq, problem.dk, problem.dv});
  backend::AttentionGradientProblem with_bf16 = problem;
  with_bf16.forward = rounded(memory, forward);
  with_bf16.output = memory.copy_of(problem.output);
  with_bf16.doutput = memory.copy_of(problem.doutput);
  with_bf16.dq = memory.place(problem.dq);
  with_bf16.dk = memory.place(problem.dk);
  with_bf16.dv = memory.place(problem.dv);
  attend_backward(executor, with_bf16);
  copy(executor, with_bf16.dq, problem.dq);
  copy(executor, with_bf16.dk, problem.dk);
  copy(executor, with_bf16.dv, problem.dv);
}

}  // namespace

void attend(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  expect_sizes("attend", problem);
  if (rounds(executor, problem)) return attend_rounded(executor, problem);
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
  if (rounds(executor, problem.forward) && problem.output.present()) return attend_backward_rounded(executor, problem);
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
  if (problem.dbias.present()) portable::bias_gradient(executor, problem);
}

std::string explain(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  expect_sizes("explain", problem);
  std::string text = to_string(executor.device()) + ", sm_" + std::to_string(executor.queue().capability());
  if (rounds(executor, problem)) return text + ", operands rounded to bf16 for tensor cores (wgmma)";
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
