// attend_backward: check, choose, call.
#include "core/context.h"
#include "ops/check.h"
#include "ops/resolve.h"
#include "polyhead/attention.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "attend_backward";

}  // namespace

backend::AttentionGradientProblem ops::resolve_backward(std::string_view op, const ConstTensorView& q,
                                                        const ConstTensorView& k, const ConstTensorView& v,
                                                        const AttentionOptions& options,
                                                        const UpstreamGradients& upstream, const GradientWants& wants,
                                                        const ForwardResults& forward) {
  backend::AttentionGradientProblem problem;
  problem.forward = resolve(op, q, k, v, options, {});
  Argument{op, "k", k}.expect_dtype(q.dtype());  // only the forward pass reads another storage type
  const AttentionShapes shapes = shapes_of(problem.forward, {.lse = true, .weights = true});
  const DType dtype = problem.forward.dtype;
  Argument{op, "upstream output", upstream.output}.expect_input(shapes.output, dtype);
  Argument{op, "upstream output", upstream.output}.expect_last_stride_one();
  problem.doutput = upstream.output;
  if (upstream.lse.present()) Argument{op, "upstream lse", upstream.lse}.expect_input(shapes.lse, shapes.numbers);
  problem.dlse = upstream.lse;
  if (upstream.weights.present()) {
    Argument{op, "upstream weights", upstream.weights}.expect_input(
        shapes.weights, upstream.weights.dtype() == DType::f32 ? DType::f32 : dtype);
  }
  problem.dweights = upstream.weights;
  if (forward.output.present() || forward.lse.present()) {
    Argument{op, "forward output", forward.output}.expect_input(shapes.output, dtype);
    Argument{op, "forward output", forward.output}.expect_last_stride_one();
    Argument{op, "forward lse", forward.lse}.expect_input(shapes.lse, shapes.numbers);
  }
  problem.output = forward.output;
  problem.lse = forward.lse;
  const auto expect_input = [&](bool wanted, bool present, const std::string& name) {
    if (wanted && !present) {
      throw Error(ErrorCode::value, op, "the gradient of " + name + " is wanted, but there is no " + name);
    }
  };
  expect_input(wants.bias, options.bias.present(), "bias");
  expect_input(wants.sink_logit, options.sink_logit.present(), "sink_logit");
  return problem;
}

ops::GradientShapes ops::shapes_of(const backend::AttentionGradientProblem& problem, const AttentionOptions& options) {
  const backend::AttentionProblem& forward = problem.forward;
  const bool biased = options.bias.present();
  return {.dq = forward.q.shape(),
          .dk = forward.k.shape(),
          .dv = forward.v.shape(),
          .dbias = biased ? options.bias.shape() : Dims{},
          .dsink_logit = {forward.heads},
          .dgates = {static_cast<std::int64_t>(forward.sequences.size()), forward.heads},
          .dtype = forward.dtype,
          .bias_dtype = biased ? options.bias.dtype() : forward.dtype,
          .numbers = forward.dtype == DType::f64 ? DType::f64 : DType::f32};
}

TensorView ops::broadcast_gradient(std::string_view op, const backend::AttentionGradientProblem& problem,
                                   const TensorView& dbias) {
  if (!dbias.present()) return {};
  const ConstTensorView wide = broadcast({op, "dbias", dbias}, problem.forward.bias.shape());
  return TensorView(dbias.data(), dbias.dtype(), wide.shape(), wide.strides());
}

namespace {

void attach(const AttentionGradientOutputs& outputs, const AttentionOptions& options, const GradientWants& wants,
            backend::AttentionGradientProblem& problem) {
  const backend::AttentionProblem& forward = problem.forward;
  const ops::GradientShapes shapes = ops::shapes_of(problem, options);
  const auto attach = [&](std::string_view name, const TensorView& view, bool wanted, const Dims& shape, DType dtype,
                          TensorView& place) {
    const ConstTensorView others[] = {
        forward.q,          forward.k,     forward.v,       forward.keep, forward.bias,     forward.alibi,
        forward.sink_logit, forward.gates, problem.doutput, problem.dlse, problem.dweights, problem.output,
        problem.lse,        problem.dq,    problem.dk,      problem.dv,   problem.dbias,    problem.dsink_logit};
    ops::Argument{kOp, name, view}.expect_output(wanted, shape, dtype, others);
    place = view;
  };
  attach("dq", outputs.dq, true, shapes.dq, shapes.dtype, problem.dq);
  attach("dk", outputs.dk, true, shapes.dk, shapes.dtype, problem.dk);
  attach("dv", outputs.dv, true, shapes.dv, shapes.dtype, problem.dv);
  attach("dbias", outputs.dbias, wants.bias, shapes.dbias, shapes.bias_dtype, problem.dbias);
  attach("dsink_logit", outputs.dsink_logit, wants.sink_logit, shapes.dsink_logit, shapes.numbers, problem.dsink_logit);
  attach("dgates", outputs.dgates, wants.gates, shapes.dgates, shapes.numbers, problem.dgates);
  for (const auto& [name, view] : {std::pair{"dq", outputs.dq}, {"dk", outputs.dk}, {"dv", outputs.dv}}) {
    ops::Argument{kOp, name, view}.expect_last_stride_one();
  }
}

void call(Context& context, backend::AttentionGradientProblem& problem) {
  problem.dbias = ops::broadcast_gradient(kOp, problem, problem.dbias);
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::attend_backward(team, problem);
}

}  // namespace

void attend_backward_into(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options, const UpstreamGradients& upstream,
                          const GradientWants& wants, const ForwardResults& forward,
                          const AttentionGradientOutputs& outputs) {
  backend::AttentionGradientProblem problem = ops::resolve_backward(kOp, q, k, v, options, upstream, wants, forward);
  attach(outputs, options, wants, problem);
  call(context, problem);
}

AttentionGradients attend_backward(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                                   const ConstTensorView& v, const AttentionOptions& options,
                                   const UpstreamGradients& upstream, const GradientWants& wants,
                                   const ForwardResults& forward) {
  backend::AttentionGradientProblem problem = ops::resolve_backward(kOp, q, k, v, options, upstream, wants, forward);
  const ops::GradientShapes shapes = ops::shapes_of(problem, options);
  AttentionGradients result;
  result.dq = Tensor::empty(shapes.dq, shapes.dtype);
  result.dk = Tensor::empty(shapes.dk, shapes.dtype);
  result.dv = Tensor::empty(shapes.dv, shapes.dtype);
  if (wants.bias) result.dbias = Tensor::empty(shapes.dbias, shapes.bias_dtype);
  if (wants.sink_logit) result.dsink_logit = Tensor::empty(shapes.dsink_logit, shapes.numbers);
  if (wants.gates) result.dgates = Tensor::empty(shapes.dgates, shapes.numbers);
  problem.dq = result.dq;
  problem.dk = result.dk;
  problem.dv = result.dv;
  problem.dbias = result.dbias;
  problem.dsink_logit = result.dsink_logit;
  problem.dgates = result.dgates;
  call(context, problem);
  return result;
}

}  // namespace polyhead
