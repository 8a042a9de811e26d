// attend_backward: check, resolve, run.
#include "ops/call.h"
#include "ops/check.h"
#include "ops/resolve.h"
#include "polyhead/attention.h"

namespace polyhead {
kernels::AttentionGradientProblem ops::resolve_backward(Allocator& memory, const Op& op, const ConstTensorView& q,
                                                        const ConstTensorView& k, const ConstTensorView& v,
                                                        const AttentionOptions& options,
                                                        const UpstreamGradients& upstream, const GradientWants& wants,
                                                        const ForwardResults& forward) {
  kernels::AttentionGradientProblem problem;
  problem.forward = resolve(op, q, k, v, options, {});
  Argument{op, "k", k}.expect_dtype(q.dtype());  // only the forward pass reads keys of another type
  const bool packed_weights = upstream.weights.present() && problem.forward.sequences.packed;
  const AttentionShapes shapes = shapes_of(problem.forward, {.lse = true, .weights = true},
                                           packed_weights ? longest_keys(memory, options.cu_k) : 0);
  const DType dtype = problem.forward.dtype;
  Argument{op, "doutput", upstream.output}.expect_input(shapes.output, dtype);
  Argument{op, "doutput", upstream.output}.expect_last_stride_one();
  problem.doutput = upstream.output;
  if (upstream.lse.present()) Argument{op, "dlse", upstream.lse}.expect_input(shapes.lse, shapes.numbers);
  problem.dlse = upstream.lse;
  if (upstream.weights.present()) {
    Argument{op, "dweights", upstream.weights}.expect_input(
        shapes.weights, upstream.weights.dtype() == DType::f32 ? DType::f32 : dtype);
  }
  problem.dweights = upstream.weights;
  if (forward.output.present() != forward.lse.present()) {
    throw Error(ErrorCode::value, op, "expected output and lse of the forward pass together, found one of them");
  }
  if (forward.output.present()) {
    Argument{op, "forward output", forward.output}.expect_input(shapes.output, dtype);
    Argument{op, "forward output", forward.output}.expect_last_stride_one();
    Argument{op, "forward lse", forward.lse}.expect_input(shapes.lse, shapes.numbers);
  }
  if (forward.merged && !forward.output.present()) {
    throw Error(
        ErrorCode::value, op,
        "merged: expected output and lse over all shards of the keys, found neither; a shard does not know them");
  }
  if (forward.merged && upstream.weights.present()) {
    throw Error(ErrorCode::unsupported, op,
                "merged results take no dweights, whose part of delta is a sum over the keys of all shards; leave "
                "dweights out, or call with all keys");
  }
  problem.output = forward.output;
  problem.lse = forward.lse;
  problem.merged = forward.merged;
  const auto expect_input = [&](bool wanted, bool present, const std::string& name) {
    if (wanted && !present) {
      throw Error(ErrorCode::value, op, "the gradient of " + name + " is wanted, but there is no " + name);
    }
  };
  expect_input(wants.bias, options.bias.present(), "bias");
  expect_input(wants.sink_logit, options.sink_logit.present(), "sink_logit");
  return problem;
}

ops::GradientShapes ops::shapes_of(const kernels::AttentionGradientProblem& problem, const AttentionOptions& options) {
  const kernels::AttentionProblem& forward = problem.forward;
  const bool biased = options.bias.present();
  return {.dq = forward.q.shape(),
          .dk = forward.k.shape(),
          .dv = forward.v.shape(),
          .dbias = biased ? options.bias.shape() : Dims{},
          .dsink_logit = {forward.heads},
          .dgates = {forward.sequences.count, forward.heads},
          .dtype = forward.dtype,
          .bias_dtype = biased ? options.bias.dtype() : forward.dtype,
          .numbers = forward.dtype == DType::f64 ? DType::f64 : DType::f32};
}

TensorView ops::broadcast_gradient(const Op& op, const kernels::AttentionGradientProblem& problem,
                                   const TensorView& dbias) {
  if (!dbias.present()) return {};
  const ConstTensorView wide = broadcast({op, "dbias", dbias}, problem.forward.bias.shape());
  return dbias.as_strided(wide.shape(), wide.strides());
}

namespace {

using ops::Table;

void attach(const ops::Op& op, const AttentionGradientOutputs& outputs, const AttentionOptions& options,
            const GradientWants& wants, kernels::AttentionGradientProblem& problem) {
  const ops::GradientShapes shapes = ops::shapes_of(problem, options);
  std::vector<ConstTensorView> others = ops::tensors_of(options);
  others.insert(others.end(), {problem.forward.q, problem.forward.k, problem.forward.v, problem.doutput, problem.dlse,
                               problem.dweights, problem.output, problem.lse});
  const auto attach = [&](std::string_view name, const TensorView& view, bool wanted, const Dims& shape, DType dtype,
                          TensorView& place) {
    ops::Argument{op, name, view}.expect_output(wanted, shape, dtype, others);
    others.push_back(view);
    place = view;
  };
  attach("dq", outputs.dq, true, shapes.dq, shapes.dtype, problem.dq);
  attach("dk", outputs.dk, true, shapes.dk, shapes.dtype, problem.dk);
  attach("dv", outputs.dv, true, shapes.dv, shapes.dtype, problem.dv);
  attach("dbias", outputs.dbias, wants.bias, shapes.dbias, shapes.bias_dtype, problem.dbias);
  attach("dsink_logit", outputs.dsink_logit, wants.sink_logit, shapes.dsink_logit, shapes.numbers, problem.dsink_logit);
  attach("dgates", outputs.dgates, wants.gates, shapes.dgates, shapes.numbers, problem.dgates);
  for (const auto& [name, view] : {std::pair{"dq", outputs.dq}, {"dk", outputs.dk}, {"dv", outputs.dv}}) {
    ops::Argument{op, name, view}.expect_last_stride_one();
  }
  problem.dbias = ops::broadcast_gradient(op, problem, problem.dbias);
}

kernels::AttentionGradientProblem checked(Context& context, const ops::Op& op, const ConstTensorView& q,
                                          const ConstTensorView& k, const ConstTensorView& v,
                                          const AttentionOptions& options, const UpstreamGradients& upstream,
                                          const GradientWants& wants, const ForwardResults& forward) {
  kernels::AttentionGradientProblem problem =
      ops::resolve_backward(*context.allocator(), op, q, k, v, options, upstream, wants, forward);
  ops::run(context, &Table::check_attention, op, problem.forward);
  return problem;
}

}  // namespace

void attend_backward_into(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options, const UpstreamGradients& upstream,
                          const GradientWants& wants, const ForwardResults& forward,
                          const AttentionGradientOutputs& outputs) {
  const ops::Op op{"attend_backward", context.device()};
  kernels::AttentionGradientProblem problem = checked(context, op, q, k, v, options, upstream, wants, forward);
  attach(op, outputs, options, wants, problem);
  ops::run(context, &Table::attend_backward, problem);
}

AttentionGradients attend_backward(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                                   const ConstTensorView& v, const AttentionOptions& options,
                                   const UpstreamGradients& upstream, const GradientWants& wants,
                                   const ForwardResults& forward) {
  const ops::Op op{"attend_backward", context.device()};
  kernels::AttentionGradientProblem problem = checked(context, op, q, k, v, options, upstream, wants, forward);
  const ops::GradientShapes shapes = ops::shapes_of(problem, options);
  const auto made = [&](bool wanted, const Dims& shape, DType dtype) {
    return wanted ? Tensor::empty(shape, dtype, context.allocator()) : Tensor();
  };
  AttentionGradients result;
  problem.dq = result.dq = made(true, shapes.dq, shapes.dtype);
  problem.dk = result.dk = made(true, shapes.dk, shapes.dtype);
  problem.dv = result.dv = made(true, shapes.dv, shapes.dtype);
  result.dbias = made(wants.bias, shapes.dbias, shapes.bias_dtype);
  problem.dbias = ops::broadcast_gradient(op, problem, result.dbias);
  problem.dsink_logit = result.dsink_logit = made(wants.sink_logit, shapes.dsink_logit, shapes.numbers);
  problem.dgates = result.dgates = made(wants.gates, shapes.dgates, shapes.numbers);
  ops::run(context, &Table::attend_backward, problem);
  return result;
}

}  // namespace polyhead
