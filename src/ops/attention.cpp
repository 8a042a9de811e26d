// attend: check, resolve, run.
#include "polyhead/attention.h"

#include "ops/call.h"
#include "ops/resolve.h"
#include "polyhead/info.h"

namespace polyhead {
namespace {

using ops::Table;

// The problem, checked, without its outputs, and the shapes of those.
struct Resolved {
  kernels::AttentionProblem problem;
  ops::AttentionShapes shapes;

  Resolved(Context& context, const ops::Op& op, const ConstTensorView& q, const ConstTensorView& k,
           const ConstTensorView& v, const AttentionOptions& options, const AttentionWants& wants)
      : problem(ops::resolve(op, q, k, v, options, wants)) {
    ops::run(context, &Table::check_attention, op, problem);
    const bool longest = ops::needs_longest_keys(problem, wants);
    shapes = ops::shapes_of(problem, wants, longest ? ops::longest_keys(*context.allocator(), options.cu_k) : 0);
  }
};

}  // namespace

void attend_into(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                 const AttentionOptions& options, const AttentionWants& wants, const AttentionOutputs& outputs) {
  const ops::Op op{"attend", context.device()};
  auto [problem, shapes] = Resolved(context, op, q, k, v, options, wants);
  ops::attach_outputs(op, options, wants, shapes, outputs, problem);
  ops::run(context, &Table::attend, problem);
}

Attention attend(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                 const AttentionOptions& options, const AttentionWants& wants) {
  auto [problem, shapes] = Resolved(context, {"attend", context.device()}, q, k, v, options, wants);
  const auto made = [&](bool wanted, const Dims& shape, DType dtype) {
    return wanted ? Tensor::empty(shape, dtype, context.allocator()) : Tensor();
  };
  Attention result;
  problem.output = result.output = made(true, shapes.output, problem.dtype);
  problem.lse = result.lse = made(wants.lse, shapes.lse, shapes.numbers);
  problem.weights = result.weights = made(wants.weights, shapes.weights, shapes.weights_dtype);
  problem.logits = result.logits = made(wants.logits != LogitStage::none, shapes.weights, shapes.numbers);
  problem.statistics = result.statistics =
      made(wants.statistics != StatisticsSet::none, shapes.statistics, shapes.numbers);
  problem.row_statistics = result.row_statistics = made(wants.row_statistics, shapes.row_statistics, shapes.numbers);
  ops::run(context, &Table::attend, problem);
  return result;
}

std::string explain(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                    const AttentionOptions& options, const AttentionWants& wants) {
  const Resolved resolved(context, {"explain", context.device()}, q, k, v, options, wants);
  const std::string path = ops::run(context, &Table::explain, resolved.problem);
  if (context.device().kind != Device::Kind::cpu) return path;
  const Info here = info();
  return path + "; " + (here.cuda ? "there is a GPU, but this context is not on it" : here.cuda_reason);
}

}  // namespace polyhead
