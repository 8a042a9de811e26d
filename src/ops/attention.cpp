// attend: check, choose, call.
#include "polyhead/attention.h"

#include "core/context.h"
#include "ops/resolve.h"

namespace polyhead {
namespace {

void call(Context& context, const backend::AttentionProblem& problem) {
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::attend(team, problem);
}

}  // namespace

void attend_into(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                 const AttentionOptions& options, const AttentionWants& wants, const AttentionOutputs& outputs) {
  backend::AttentionProblem problem = ops::resolve("attend", q, k, v, options, wants);
  ops::attach_outputs("attend", wants, outputs, problem);
  call(context, problem);
}

Attention attend(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                 const AttentionOptions& options, const AttentionWants& wants) {
  backend::AttentionProblem problem = ops::resolve("attend", q, k, v, options, wants);
  const ops::AttentionShapes shapes = ops::shapes_of(problem, wants);
  Attention result;
  result.output = Tensor::empty(shapes.output, problem.dtype);
  if (wants.lse) result.lse = Tensor::empty(shapes.lse, shapes.numbers);
  if (wants.weights) result.weights = Tensor::empty(shapes.weights, shapes.weights_dtype);
  if (wants.statistics != StatisticsSet::none) result.statistics = Tensor::empty(shapes.statistics, shapes.numbers);
  if (wants.row_statistics) result.row_statistics = Tensor::empty(shapes.row_statistics, shapes.numbers);
  problem.output = result.output;
  problem.lse = result.lse;
  problem.weights = result.weights;
  problem.statistics = result.statistics;
  problem.row_statistics = result.row_statistics;
  call(context, problem);
  return result;
}

std::string explain(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                    const AttentionOptions& options, const AttentionWants& wants) {
  const backend::AttentionProblem problem = ops::resolve("explain", q, k, v, options, wants);
  std::string text = "cpu, fused, " + cpu::target_name() + ", up to " + std::to_string(context.threads()) + " threads";
  const bool decodes = cpu::decodes(problem), halves = size_of(problem.k.dtype()) == 2;
  if (problem.dtype == DType::f64) text += "; f64: half the lanes of f32";
  if (decodes) text += "; few queries: the head dim in lanes, keys and values read once for all heads that share them";
  if (halves)
    text += "; keys and values are widened to f32 " + std::string(decodes ? "in registers" : "block by block");
  if (decodes && wants.statistics != StatisticsSet::none) text += "; statistics: a walk of their own over the keys";
  if (wants.weights) text += "; weights: a second walk over the keys writes them";
  if (problem.keep.present() || problem.bias.present())
    text += "; keep or bias: read once per head, every tile is masked";
  return text + "; " + cuda::reason();
}

}  // namespace polyhead
