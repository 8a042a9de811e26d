// The layer backward: through W_O, attention and the projections, as one op that holds the executor.
#include "ops/head_norms.h"
#include "ops/linear.h"
#include "ops/multihead.h"
#include "ops/multihead_plan.h"
#include "ops/resolve.h"
#include "ops/shared_heads.h"
#include "polyhead/layer.h"

namespace polyhead {
namespace {

using ops::Table;

constexpr std::string_view kOp = "multihead_backward";

// Gradients have the shapes of the parameters; those of absent ones stay absent, and if nothing is learnt so do all but
// those of norms.
MultiHeadParameters<TensorView> lay_out(const ops::MultiHeadPlan& plan, const MultiHeadViews& like,
                                        const ops::ParameterGradients& learnt, MultiHeadTensors& to) {
  MultiHeadParameters<TensorView> made = learnt.into;
  const auto one = [&](const char*, ParameterKind kind, TensorView& place, const ConstTensorView& view,
                       Tensor& tensor) {
    if (place.present() || !(learnt.all || kind == ParameterKind::norm)) return;
    place = plan.place(tensor, view.shape(), plan.dtype, view.present());
  };
  for_each_parameter(one, made, like, to);
  return made;
}

// Checks that everything is there that the forward pass has to keep.
void check_forward(const ops::MultiHeadPlan& plan, const MultiHeadResults& forward,
                   const ops::ProjectionBuffers& like) {
  const std::string mend = "call multihead with MultiHeadWants::training()";
  const auto expect = [&](std::string_view name, const ConstTensorView& view, const Dims& shape, DType dtype) {
    const ops::Argument argument{plan.op, name, view};
    argument.expect_input(shape, dtype, mend);
    argument.expect_last_stride_one();
  };
  const DType numbers = plan.dtype == DType::f64 ? DType::f64 : DType::f32;
  expect("forward heads", forward.heads, {plan.batch, plan.queries, plan.inner()}, plan.dtype);
  expect("forward lse", forward.lse, {plan.batch, plan.shape.heads, plan.queries}, numbers);
  expect("forward q", forward.projections.q, like.part[ops::kQuery].shape(), plan.dtype);
  expect("forward k", forward.projections.k, like.part[ops::kKey].shape(), plan.dtype);
  expect("forward v", forward.projections.v, like.part[ops::kValue].shape(), plan.dtype);
  if (!plan.shape.qk_norm) return;
  const std::vector<Dims> norms = ops::kept_by_norms(plan);
  const std::size_t groups = plan.groups.size();
  for (std::size_t n = 0; n < norms.size(); ++n) {
    const bool there = forward.projections.buffers.size() == groups + norms.size();
    expect("forward norms", there ? forward.projections.buffers[groups + n].view() : ConstTensorView{}, norms[n],
           plan.dtype);
  }
}

// The gradient of a group's input, and dW and db if something is learnt. dparts [B,L,N] is the gradient of its
// projections.
void through_projection(const ops::Call& call, const ops::MultiHeadPlan& plan, const ops::ProjectionGroup& group,
                        const TensorView& dparts, const MultiHeadParameters<TensorView>& d, const TensorView& dinput,
                        ops::SharedPass* shared) {
  ops::linear_dx(call, dparts, group.weight, dinput, shared);
  if (!d.out_proj_weight.present()) return;
  std::int64_t row = 0;
  for (int part = 0; part < group.first; ++part) row += plan.part_rows[part];
  const TensorView dbias = plan.shape.bias ? d.in_proj_bias.slice(0, row, row + group.columns) : TensorView{};
  if (plan.shape.packed()) {
    return ops::linear_dweight(call, dparts, group.input, d.in_proj_weight.slice(0, row, row + group.columns), dbias,
                               shared);
  }
  const TensorView own[] = {d.q_proj_weight, d.k_proj_weight, d.v_proj_weight};
  std::int64_t column = 0;
  for (int part = group.first; part < group.first + group.parts; ++part) {
    const std::int64_t rows = plan.part_rows[part];
    ops::linear_dweight(call, dparts.slice(2, column, column + rows), group.input, own[part],
                        plan.shape.bias ? dbias.slice(0, column, column + rows) : TensorView{});
    column += rows;
  }
}

// The memory of earlier gradients may be written again, but not if the call reads from it.
void expect_apart(const ops::MultiHeadPlan& plan, const MultiHeadGradients& gradients,
                  const MultiHeadParameters<TensorView>& into) {
  for (const Tensor* input : {&gradients.dquery, &gradients.dkey, &gradients.dvalue}) {
    plan.expect_apart("gradient of an input", *input);
  }
  const auto apart = [&](const char*, ParameterKind, const Tensor& own, const TensorView& given) {
    plan.expect_apart("gradient of a parameter", own);
    plan.expect_apart("gradient of a parameter", given);
  };
  for_each_parameter(apart, gradients.dparameters, into);
  plan.expect_apart("dbias", gradients.dbias);
  plan.expect_apart("dsink_logit", gradients.dsink_logit);
  plan.expect_apart("dgates", gradients.dgates);
}

}  // namespace

void ops::multihead_backward(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                             const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                             const MultiHeadResults& forward, const UpstreamGradients& upstream,
                             const GradientWants& wants, const ParameterGradients& learnt,
                             MultiHeadGradients& gradients, SharedPass* shared) {
  // Everything is checked first, so that a call that throws has written and released nothing.
  const ops::Call call(context);
  ops::MultiHeadPlan plan(kOp, call, shape, parameters, inputs);
  const DType dtype = plan.dtype;
  const Dims merged{plan.batch, plan.queries, plan.inner()}, outer{plan.batch, plan.queries, plan.shape.width};
  const ops::Argument arriving{plan.op, "doutput", upstream.output};
  arriving.expect_input(outer, dtype);
  arriving.expect_last_stride_one();
  ops::check_output_dropout(kOp, options.output_dropout);
  const ops::ProjectionBuffers dparts(
      plan, [&](std::size_t g, const Dims& buffer) { return call.scratch(ops::scratch_of_group(g), buffer, dtype); });
  check_forward(plan, forward, dparts);
  const TensorView dheads = call.scratch(ScratchSlot::dheads, merged, dtype);
  const Projections& projections = forward.projections;
  kernels::AttentionGradientProblem attention =
      ops::resolve_backward(*plan.memory, plan.op, projections.q, projections.k, projections.v, options.attention,
                            {plan.as_heads(dheads), upstream.lse, upstream.weights}, wants,
                            {plan.as_heads(forward.heads.view()), forward.lse});
  std::optional<ops::SharedHeads> own;
  if (shared != nullptr) own.emplace(plan, *shared, wants);
  const auto turned = [&](ops::Part part) { return own ? own->own(dparts.part[part], part) : dparts.part[part]; };
  const std::vector<kernels::RotaryProblem> rotations =
      plan.rotations(options, turned(ops::kQuery), turned(ops::kKey), true);
  plan.reads(ops::tensors_of(options.attention));
  plan.reads(ops::tensors_of_rotary(options));
  plan.reads({upstream.output, upstream.lse, upstream.weights, forward.heads, forward.lse, projections.q, projections.k,
              projections.v});
  expect_apart(plan, gradients, learnt.into);
  call(&Table::check_attention, plan.op, attention.forward);

  const MultiHeadParameters<TensorView> d = lay_out(plan, parameters, learnt, gradients.dparameters);
  Tensor* const places[] = {&gradients.dquery, &gradients.dkey, &gradients.dvalue};
  TensorView dinputs[3];
  for (std::size_t g = 0; g < 3; ++g) {
    const bool given = g < plan.groups.size();
    dinputs[g] = plan.place(*places[g], given ? plan.groups[g].input.shape() : Dims{}, dtype, given);
  }
  const ops::GradientShapes shapes = ops::shapes_of(attention, options.attention);
  attention.dq = dparts.part[ops::kQuery];
  attention.dk = dparts.part[ops::kKey];
  attention.dv = dparts.part[ops::kValue];
  attention.dbias = ops::broadcast_gradient(plan.op, attention,
                                            plan.place(gradients.dbias, shapes.dbias, shapes.bias_dtype, wants.bias));
  attention.dsink_logit = plan.place(gradients.dsink_logit, shapes.dsink_logit, shapes.numbers, wants.sink_logit);
  attention.dgates = plan.place(gradients.dgates, shapes.dgates, shapes.numbers, wants.gates);

  // Through W_O.
  ConstTensorView doutput = upstream.output;
  if (options.output_dropout.p > 0) {
    const TensorView dropped = call.scratch(ScratchSlot::dropped, outer, dtype);
    call(&Table::drop, {doutput, dropped, options.output_dropout});
    doutput = dropped;
  }
  ops::linear_dweight(call, doutput, forward.heads, d.out_proj_weight, d.out_proj_bias, shared);
  own ? own->through_out(call, doutput, dheads) : ops::linear_dx(call, doutput, plan.out_weight, dheads);

  // Through attention and the projections.
  if (own) own->narrow(attention);
  if (!own || !own->none()) call(&Table::attend_backward, attention);
  for (const kernels::RotaryProblem& rotation : rotations) call(&Table::rotate, rotation);
  if (own) own->gather_projections(call, dparts.buffers[0], ops::kValue + 1);
  if (own && wants.gates) own->gather_gates(call, gradients.dgates);
  ops::normalise_heads_backward(call, plan, parameters, projections, dparts, d);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    through_projection(call, plan, plan.groups[g], dparts.buffers[g], d, dinputs[g], shared);
  }
}

void multihead_backward_into(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                             const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                             const MultiHeadResults& forward, const UpstreamGradients& upstream,
                             const GradientWants& wants, MultiHeadGradients& gradients) {
  ops::multihead_backward(context, shape, parameters, inputs, options, forward, upstream, wants, {}, gradients);
}
MultiHeadGradients multihead_backward(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                                      const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                                      const MultiHeadResults& forward, const UpstreamGradients& upstream,
                                      const GradientWants& wants) {
  MultiHeadGradients gradients;
  multihead_backward_into(context, shape, parameters, inputs, options, forward, upstream, wants, gradients);
  return gradients;
}

}  // namespace polyhead
