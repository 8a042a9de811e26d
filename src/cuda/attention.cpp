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
void expect_sizes(std::string_view op, const kernels::AttentionProblem& problem) {
  expect_no_f64(op, problem.q);
  expect_no_origin(op, problem.dropout);
  for (const std::int64_t size :
       {problem.sequences.queries, problem.sequences.keys, problem.heads, problem.head_dim, problem.value_dim}) {
    if (size < std::int64_t{1} << 30) continue;
    throw Error(ErrorCode::unsupported, op, "expected axes below 2^30, found " + std::to_string(size) + "; split it");
  }
  if (const std::int64_t p = problem.sequences.position; p >= std::int64_t{1} << 30 || -p >= std::int64_t{1} << 30) {
    throw Error(ErrorCode::unsupported, op, "expected positions below 2^30, found " + std::to_string(p));
  }
}

// Why Hopper's own kernels do not take a call, forward or backward; empty if they do.
template <class Problem>
std::string_view why_not_sm90(CudaExecutor& executor, const Problem& problem) {
  const std::string_view why = executor.queue().why_not_hopper();
  return why.empty() ? sm90::why_not(problem) : why;
}

// Output, lse and statistics. Weights and logits have a kernel of their own, and so have statistics where there are
// score modifiers.
void attend_sm90(CudaExecutor& executor, kernels::AttentionProblem problem) {
  kernels::AttentionProblem rest = problem;
  if (portable::score_modifier(problem).empty()) {
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
void attend_again(CudaExecutor& executor, kernels::AttentionGradientProblem& problem) {
  kernels::AttentionProblem forward = problem.forward;
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

// bf16 tensors that stand in for f32 ones, [B,H,T,D] with the heads of a token side by side.
class Bf16Copies {
 public:
  // With room for every tensor that will be placed.
  Bf16Copies(CudaExecutor& executor, std::initializer_list<ConstTensorView> likes) : executor_(executor) {
    std::int64_t bytes = 0;
    for (const ConstTensorView& like : likes) bytes += bytes_of(like);
    next_ = executor_.workspace<std::byte>(Workspace::rounded, bytes);
  }
  // What is absent stays so.
  TensorView place(const ConstTensorView& like) {
    if (!like.present()) return {};
    const TensorView made = shaped(next_, like);
    next_ += bytes_of(like);
    return made;
  }
  TensorView copy_of(const ConstTensorView& f32) {
    const TensorView made = place(f32);
    if (f32.present()) copy(executor_, f32, made);
    return made;
  }
  static TensorView shaped(void* memory, const ConstTensorView& like) {
    const Dims& shape = like.shape();
    const std::int64_t row = shape[1] * shape[3];
    return TensorView(memory, DType::bf16, shape, {shape[2] * row, shape[3], row, 1}, like.device());
  }

 private:
  static std::int64_t bytes_of(const ConstTensorView& like) {
    return like.present() ? (like.count() * 2 + 255) / 256 * 256 : 0;
  }

  CudaExecutor& executor_;
  std::byte* next_ = nullptr;
};

// The problem as it would be with bf16 copies, which do not exist yet: for questions about its shape.
kernels::AttentionProblem with_bf16_shapes(kernels::AttentionProblem problem) {
  alignas(256) static std::byte nothing[256];
  problem.dtype = DType::bf16;
  for (ConstTensorView* view : {&problem.q, &problem.k, &problem.v}) *view = Bf16Copies::shaped(nothing, *view);
  if (problem.output.present()) problem.output = Bf16Copies::shaped(nothing, problem.output);
  return problem;
}

// Whether f32 operands are rounded to bf16: if it is allowed, and Hopper's kernels take the call then. Not for few
// queries: all keys would be copied to be read once.
bool rounds_operands(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  if (executor.precision != Precision::bf16 || problem.dtype != DType::f32) return false;
  if (problem.k.dtype() != DType::f32 || problem.sequences.queries <= 16) return false;
  return why_not_sm90(executor, with_bf16_shapes(problem)).empty();
}

kernels::AttentionProblem with_bf16_operands(Bf16Copies& copies, kernels::AttentionProblem problem) {
  problem.dtype = DType::bf16;
  problem.q = copies.copy_of(problem.q);
  problem.k = copies.copy_of(problem.k);
  problem.v = copies.copy_of(problem.v);
  return problem;
}

void attend_rounded(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  Bf16Copies copies(executor, {problem.q, problem.k, problem.v, problem.output});
  kernels::AttentionProblem rounded = with_bf16_operands(copies, problem);
  rounded.output = copies.place(problem.output);
  attend(executor, rounded);
  copy(executor, rounded.output, problem.output);
}

void attend_backward_rounded(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem) {
  const kernels::AttentionProblem& forward = problem.forward;
  Bf16Copies copies(
      executor, {forward.q, forward.k, forward.v, problem.output, problem.doutput, problem.dq, problem.dk, problem.dv});
  kernels::AttentionGradientProblem rounded = problem;
  rounded.forward = with_bf16_operands(copies, forward);
  rounded.output = copies.copy_of(problem.output);
  rounded.doutput = copies.copy_of(problem.doutput);
  rounded.dq = copies.place(problem.dq);
  rounded.dk = copies.place(problem.dk);
  rounded.dv = copies.place(problem.dv);
  attend_backward(executor, rounded);
  copy(executor, rounded.dq, problem.dq);
  copy(executor, rounded.dk, problem.dk);
  copy(executor, rounded.dv, problem.dv);
}

}  // namespace

void attend(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  expect_sizes("attend", problem);
  if (rounds_operands(executor, problem)) return attend_rounded(executor, problem);
  if (portable::why_not_decode(executor, problem).empty()) {
    portable::decode(executor, problem);
    portable::describe_heads(executor, problem);
  } else if (why_not_sm90(executor, problem).empty()) {
    attend_sm90(executor, problem);
  } else {
    portable::attend(executor, problem);
  }
}

void attend_backward(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem) {
  expect_sizes("attend_backward", problem.forward);
  if (problem.merged) {  // kernels here sum rows anew, or mend delta by what the row's gradients must add up to
    throw Error(ErrorCode::unsupported, "attend_backward",
                "merged: the output and lse of more keys than the call has are taken on the CPU only; found " +
                    to_string(executor.device()));
  }
  if (rounds_operands(executor, problem.forward) && !problem.dweights.present()) {
    return attend_backward_rounded(executor, problem);
  }
  const bool hopper = why_not_sm90(executor, problem).empty();
  if (!hopper && !portable::why_not_mma(executor, problem).empty()) {
    return portable::attend_backward_f32(executor, problem);
  }
  kernels::AttentionGradientProblem known = problem;
  if (!problem.output.present()) attend_again(executor, known);
  if (!hopper) return portable::attend_backward_mma(executor, known);
  const auto bytes = static_cast<std::int64_t>(sm90::extra_bytes(known));
  sm90::attend_backward({executor.stream(), executor.queue().processors(), executor.counters(1),
                         executor.workspace<std::byte>(Workspace::gradient, bytes)},
                        known);
  if (problem.dbias.present()) portable::bias_gradient(executor, problem);
}

std::string explain(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  expect_sizes("explain", problem);
  if (rounds_operands(executor, problem)) {
    return explain(executor, with_bf16_shapes(problem)) + "; f32 tensors, rounded to bf16 first";
  }
  std::string text = to_string(executor.device()) + ", sm_" + std::to_string(executor.queue().capability());
  const std::string not_mma(portable::why_not_mma(executor, problem)), not_sm90(why_not_sm90(executor, problem));
  const bool few = portable::why_not_decode(executor, problem).empty(), hopper = !few && not_sm90.empty();
  if (few) {
    text += ", tensor cores (mma.sync); few queries: keys and values read once for all heads that share them";
  } else if (hopper) {
    text += ", tensor cores (wgmma), keys and values brought by the copy engine";
  } else {
    text += not_mma.empty() ? ", tensor cores (mma.sync)" : ", f32 arithmetic; no tensor cores: " + not_mma;
    if (not_mma.empty() && problem.dtype == DType::f32) {
      text += executor.precision == Precision::f32 ? "; f32 in three products of TF32" : "; f32 rounded to TF32";
    }
    text += "; not Hopper's kernel: " + not_sm90;
  }
  if (const std::string_view why = hopper ? sm90::why_not_bias_tiles(problem) : ""; !why.empty()) {
    text += "; the bias is not brought by the copy engine: " + std::string(why);
  }
  if (!problem.weight_head_of.empty()) text += "; weights or logits: a kernel of their own computes them, in f32";
  if (problem.statistics_set != StatisticsSet::none) {
    text += hopper && portable::score_modifier(problem).empty()
                ? "; statistics: in the same pass over the keys"
                : "; statistics: a kernel of their own computes the logits again, in f32";
  }
  return text;
}

}  // namespace polyhead::cuda
