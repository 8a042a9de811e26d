// attend_backward: check, choose, call. The CPU's fused backward is not written yet; the reference computes in double.
#include "ops/check.h"
#include "ops/resolve.h"
#include "polyhead/attention.h"
#include "reference/attention.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "attend_backward";

struct GradientShapes {
  Dims dq, dk, dv, dbias, dsink_logit, dgates;
};

// Checks the inputs, the upstream gradients and the wants.
backend::AttentionProblem check(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                const AttentionOptions& options, const UpstreamGradients& upstream,
                                const GradientWants& wants) {
  const backend::AttentionProblem problem = ops::resolve(kOp, q, k, v, options, {});
  const AttentionWants all{.lse = true, .weights = true};
  const ops::AttentionShapes shapes = ops::shapes_of(problem, all);
  const auto expect = [](std::string_view name, const ConstTensorView& view, const Dims& shape, DType dtype) {
    const ops::Argument argument{kOp, name, view};
    argument.expect_dtype(dtype);
    argument.expect_shape(shape);
    argument.expect_memory();
  };
  if (!upstream.output.present()) {
    ops::Argument{kOp, "upstream output", upstream.output}.refuse(ErrorCode::shape, to_string(shapes.output));
  }
  expect("upstream output", upstream.output, shapes.output, problem.dtype);
  if (upstream.lse.present()) expect("upstream lse", upstream.lse, shapes.lse, shapes.numbers);
  if (upstream.weights.present()) {
    const DType dtype = upstream.weights.dtype() == DType::f32 ? DType::f32 : problem.dtype;
    expect("upstream weights", upstream.weights, shapes.weights, dtype);
  }
  const auto expect_input = [](bool wanted, bool present, const std::string& name) {
    if (wanted && !present) {
      throw Error(ErrorCode::value, kOp, "the gradient of " + name + " is wanted, but there is no " + name);
    }
  };
  expect_input(wants.bias, options.bias.present(), "bias");
  expect_input(wants.sink_logit, options.sink_logit.present(), "sink_logit");
  return problem;
}

GradientShapes shapes_of(const backend::AttentionProblem& problem, const AttentionOptions& options) {
  const auto N = static_cast<std::int64_t>(problem.sequences.size());
  return {problem.q.shape(), problem.k.shape(),
          problem.v.shape(), options.bias.present() ? options.bias.shape() : Dims{},
          {problem.heads},   {N, problem.heads}};
}

}  // namespace

void attend_backward_into(Context&, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                          const AttentionOptions& options, const UpstreamGradients& upstream,
                          const GradientWants& wants, const AttentionGradientOutputs& outputs) {
  const backend::AttentionProblem problem = check(q, k, v, options, upstream, wants);
  const GradientShapes shapes = shapes_of(problem, options);
  const DType numbers = problem.dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto expect = [&](std::string_view name, const TensorView& view, bool wanted, const Dims& shape, DType dtype) {
    const ops::Argument argument{kOp, name, view};
    if (!wanted && !view.present()) return;
    if (!wanted) throw Error(ErrorCode::value, kOp, std::string(name) + " was given but is not among the wants");
    if (!view.present()) argument.refuse(ErrorCode::shape, to_string(shape));
    argument.expect_dtype(dtype);
    argument.expect_shape(shape);
    argument.expect_memory();
    argument.expect_writable_strides();
  };
  expect("dq", outputs.dq, true, shapes.dq, problem.dtype);
  expect("dk", outputs.dk, true, shapes.dk, problem.dtype);
  expect("dv", outputs.dv, true, shapes.dv, problem.dtype);
  expect("dbias", outputs.dbias, wants.bias, shapes.dbias, options.bias.dtype());
  expect("dsink_logit", outputs.dsink_logit, wants.sink_logit, shapes.dsink_logit, numbers);
  expect("dgates", outputs.dgates, wants.gates, shapes.dgates, numbers);
  reference::attend_backward(q, k, v, options, upstream, wants, outputs);
}

AttentionGradients attend_backward(Context&, const ConstTensorView& q, const ConstTensorView& k,
                                   const ConstTensorView& v, const AttentionOptions& options,
                                   const UpstreamGradients& upstream, const GradientWants& wants) {
  const backend::AttentionProblem problem = check(q, k, v, options, upstream, wants);
  const GradientShapes shapes = shapes_of(problem, options);
  const DType numbers = problem.dtype == DType::f64 ? DType::f64 : DType::f32;
  AttentionGradients result;
  result.dq = Tensor::empty(shapes.dq, problem.dtype);
  result.dk = Tensor::empty(shapes.dk, problem.dtype);
  result.dv = Tensor::empty(shapes.dv, problem.dtype);
  if (wants.bias) result.dbias = Tensor::empty(shapes.dbias, options.bias.dtype());
  if (wants.sink_logit) result.dsink_logit = Tensor::empty(shapes.dsink_logit, numbers);
  if (wants.gates) result.dgates = Tensor::empty(shapes.dgates, numbers);
  reference::attend_backward(q, k, v, options, upstream, wants,
                             {result.dq, result.dk, result.dv, result.dbias, result.dsink_logit, result.dgates});
  return result;
}

}  // namespace polyhead
