// attend_backward: check, choose, call.
#include "core/context.h"
#include "ops/check.h"
#include "ops/resolve.h"
#include "polyhead/attention.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "attend_backward";

struct GradientShapes {
  Dims dq, dk, dv, dbias, dsink_logit, dgates;
  DType dtype, bias_dtype, numbers;
};

GradientShapes shapes_of(const backend::AttentionProblem& problem, const AttentionOptions& options) {
  const auto N = static_cast<std::int64_t>(problem.sequences.size());
  const bool biased = options.bias.present();
  return {.dq = problem.q.shape(),
          .dk = problem.k.shape(),
          .dv = problem.v.shape(),
          .dbias = biased ? options.bias.shape() : Dims{},
          .dsink_logit = {problem.heads},
          .dgates = {N, problem.heads},
          .dtype = problem.dtype,
          .bias_dtype = biased ? options.bias.dtype() : problem.dtype,
          .numbers = problem.dtype == DType::f64 ? DType::f64 : DType::f32};
}

void expect(std::string_view name, const ConstTensorView& view, const Dims& shape, DType dtype) {
  const ops::Argument argument{kOp, name, view};
  if (!view.present()) argument.refuse(ErrorCode::shape, to_string(shape));
  argument.expect_dtype(dtype);
  argument.expect_shape(shape);
  argument.expect_memory();
}

// Checks the inputs, the gradients that arrive, the forward pass's results and the wants. Outputs are still absent.
backend::AttentionGradientProblem resolve(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                          const AttentionOptions& options, const UpstreamGradients& upstream,
                                          const GradientWants& wants, const ForwardResults& forward) {
  backend::AttentionGradientProblem problem;
  problem.forward = ops::resolve(kOp, q, k, v, options, {});
  ops::Argument{kOp, "k", k}.expect_dtype(q.dtype());  // only the forward pass reads another storage type
  const ops::AttentionShapes shapes = ops::shapes_of(problem.forward, {.lse = true, .weights = true});
  const DType dtype = problem.forward.dtype;
  expect("upstream output", upstream.output, shapes.output, dtype);
  ops::Argument{kOp, "upstream output", upstream.output}.expect_last_stride_one();
  problem.doutput = upstream.output;
  if (upstream.lse.present()) expect("upstream lse", upstream.lse, shapes.lse, shapes.numbers);
  problem.dlse = upstream.lse;
  if (upstream.weights.present()) {
    expect("upstream weights", upstream.weights, shapes.weights,
           upstream.weights.dtype() == DType::f32 ? DType::f32 : dtype);
  }
  problem.dweights = upstream.weights;
  if (forward.output.present() || forward.lse.present()) {
    expect("forward output", forward.output, shapes.output, dtype);
    ops::Argument{kOp, "forward output", forward.output}.expect_last_stride_one();
    expect("forward lse", forward.lse, shapes.lse, shapes.numbers);
  }
  problem.output = forward.output;
  problem.lse = forward.lse;
  const auto expect_input = [](bool wanted, bool present, const std::string& name) {
    if (wanted && !present) {
      throw Error(ErrorCode::value, kOp, "the gradient of " + name + " is wanted, but there is no " + name);
    }
  };
  expect_input(wants.bias, options.bias.present(), "bias");
  expect_input(wants.sink_logit, options.sink_logit.present(), "sink_logit");
  return problem;
}

void attach(const AttentionGradientOutputs& outputs, const AttentionOptions& options, const GradientWants& wants,
            backend::AttentionGradientProblem& problem) {
  const backend::AttentionProblem& forward = problem.forward;
  const GradientShapes shapes = shapes_of(forward, options);
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
  if (problem.dbias.present()) {  // a view of [B,H,T,S] with stride 0 where the bias was broadcast
    const ConstTensorView wide = ops::broadcast({kOp, "dbias", problem.dbias}, problem.forward.bias.shape());
    problem.dbias = TensorView(problem.dbias.data(), problem.dbias.dtype(), wide.shape(), wide.strides());
  }
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  cpu::attend_backward(team, problem);
}

}  // namespace

void attend_backward_into(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options, const UpstreamGradients& upstream,
                          const GradientWants& wants, const ForwardResults& forward,
                          const AttentionGradientOutputs& outputs) {
  backend::AttentionGradientProblem problem = resolve(q, k, v, options, upstream, wants, forward);
  attach(outputs, options, wants, problem);
  call(context, problem);
}

AttentionGradients attend_backward(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                                   const ConstTensorView& v, const AttentionOptions& options,
                                   const UpstreamGradients& upstream, const GradientWants& wants,
                                   const ForwardResults& forward) {
  backend::AttentionGradientProblem problem = resolve(q, k, v, options, upstream, wants, forward);
  const GradientShapes shapes = shapes_of(problem.forward, options);
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
