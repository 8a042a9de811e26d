// The layer backward: through W_O, attention and the projections, as one op that holds the team.
#include "backend/attention.h"
#include "backend/dropout.h"
#include "core/context.h"
#include "ops/check.h"
#include "ops/multihead_plan.h"
#include "ops/projection.h"
#include "ops/resolve.h"
#include "polyhead/layer.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "multihead_backward";

// Shared memory of the team, by slot; 0 to 2 hold the gradients of the groups.
constexpr std::size_t kDoutput = 3, kDheads = 4;

// Gradients have the shapes of the parameters; absent ones stay absent.
MultiHeadParameters<TensorView> lay_out(const ops::MultiHeadPlan& plan, const MultiHeadViews& like,
                                        MultiHeadTensors& to) {
  const auto one = [&](const ConstTensorView& view, Tensor& tensor) {
    return plan.place("gradient of a parameter", tensor, view.shape(), view.dtype(), view.present());
  };
  return {.in_proj_weight = one(like.in_proj_weight, to.in_proj_weight),
          .q_proj_weight = one(like.q_proj_weight, to.q_proj_weight),
          .k_proj_weight = one(like.k_proj_weight, to.k_proj_weight),
          .v_proj_weight = one(like.v_proj_weight, to.v_proj_weight),
          .in_proj_bias = one(like.in_proj_bias, to.in_proj_bias),
          .out_proj_weight = one(like.out_proj_weight, to.out_proj_weight),
          .out_proj_bias = one(like.out_proj_bias, to.out_proj_bias)};
}

// What arrives at the projections: a buffer per group, and q, k and v in them as heads.
struct ProjectionGradients {
  std::vector<TensorView> buffers;
  TensorView part[3];

  ProjectionGradients(Team& team, const ops::MultiHeadPlan& plan) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const ops::ProjectionGroup& group = plan.groups[g];
      buffers.push_back(ops::in_shared_memory(team, g, plan.buffer_shape(group), plan.dtype));
      for (int p = group.first; p < group.first + group.parts; ++p) {
        part[p] = plan.heads_of(buffers[g], group, static_cast<ops::Part>(p));
      }
    }
  }
};

// Is everything there that the forward pass has to leave?
void check_forward(const ops::MultiHeadPlan& plan, const MultiHeadResults& forward, const ProjectionGradients& like) {
  const std::string mend = "call multihead with MultiHeadWants::training()";
  const auto expect = [&](std::string_view name, const ConstTensorView& view, const Dims& shape, DType dtype) {
    const ops::Argument argument{kOp, name, view};
    argument.expect_input(shape, dtype, mend);
    argument.expect_last_stride_one();
  };
  const DType numbers = plan.dtype == DType::f64 ? DType::f64 : DType::f32;
  expect("forward heads", forward.heads, {plan.batch, plan.queries, plan.inner()}, plan.dtype);
  expect("forward lse", forward.lse, {plan.batch, plan.shape.heads, plan.queries}, numbers);
  expect("forward q", forward.projections.q, like.part[ops::kQuery].shape(), plan.dtype);
  expect("forward k", forward.projections.k, like.part[ops::kKey].shape(), plan.dtype);
  expect("forward v", forward.projections.v, like.part[ops::kValue].shape(), plan.dtype);
}

// dW and db of a group, and the gradient of its input. dparts [B,L,N] is what arrives at its projections.
void through_projection(Team& team, const ops::MultiHeadPlan& plan, const ops::ProjectionGroup& group,
                        const TensorView& dparts, const MultiHeadParameters<TensorView>& d, const TensorView& dinput) {
  ops::project_back(team, dparts, group.weight, dinput);
  std::int64_t row = 0;
  for (int part = 0; part < group.first; ++part) row += plan.part_rows[part];
  const TensorView dbias = plan.shape.bias ? d.in_proj_bias.slice(0, row, row + group.columns) : TensorView{};
  if (plan.shape.packed()) {
    return ops::project_weights(team, dparts, group.input, d.in_proj_weight.slice(0, row, row + group.columns), dbias);
  }
  const TensorView own[] = {d.q_proj_weight, d.k_proj_weight, d.v_proj_weight};
  std::int64_t column = 0;
  for (int part = group.first; part < group.first + group.parts; ++part) {
    const std::int64_t rows = plan.part_rows[part];
    ops::project_weights(team, dparts.slice(2, column, column + rows), group.input, own[part],
                         plan.shape.bias ? dbias.slice(0, column, column + rows) : TensorView{});
    column += rows;
  }
}

}  // namespace

void multihead_backward_into(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                             const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                             const MultiHeadResults& forward, const UpstreamGradients& upstream,
                             const GradientWants& wants, MultiHeadGradients& gradients) {
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  const Team::Burst burst(team);
  const ops::MultiHeadPlan plan(kOp, team, shape, parameters, inputs);
  const DType dtype = plan.dtype;
  const Dims merged{plan.batch, plan.queries, plan.inner()}, outer{plan.batch, plan.queries, plan.shape.width};
  const ops::Argument arriving{kOp, "upstream output", upstream.output};
  arriving.expect_input(outer, dtype);
  arriving.expect_last_stride_one();
  ops::check_dropout(kOp, "output_dropout", options.output_dropout);
  const ProjectionGradients dparts(team, plan);
  check_forward(plan, forward, dparts);
  const TensorView dheads = ops::in_shared_memory(team, kDheads, merged, dtype);
  backend::AttentionGradientProblem attention =
      ops::resolve_backward(kOp, forward.projections.q, forward.projections.k, forward.projections.v, options.attention,
                            {plan.as_heads(dheads), upstream.lse, upstream.weights}, wants,
                            {plan.as_heads(forward.heads.view()), forward.lse});
  const std::vector<backend::RotaryProblem> turns =
      plan.turns(options, dparts.part[ops::kQuery], dparts.part[ops::kKey], true);

  // Through W_O.
  const MultiHeadParameters<TensorView> d = lay_out(plan, parameters, gradients.dparameters);
  ConstTensorView doutput = upstream.output;
  if (options.output_dropout.p > 0) {
    const TensorView dropped = ops::in_shared_memory(team, kDoutput, outer, dtype);
    cpu::drop(team, {doutput, dropped, options.output_dropout});
    doutput = dropped;
  }
  ops::project_weights(team, doutput, forward.heads, d.out_proj_weight, d.out_proj_bias);
  ops::project_back(team, doutput, plan.out_weight, dheads);

  // Through attention.
  const ops::GradientShapes shapes = ops::shapes_of(attention, options.attention);
  attention.dq = dparts.part[ops::kQuery];
  attention.dk = dparts.part[ops::kKey];
  attention.dv = dparts.part[ops::kValue];
  attention.dbias = ops::broadcast_gradient(
      kOp, attention, plan.place("dbias", gradients.dbias, shapes.dbias, shapes.bias_dtype, wants.bias));
  attention.dsink_logit =
      plan.place("dsink_logit", gradients.dsink_logit, shapes.dsink_logit, shapes.numbers, wants.sink_logit);
  attention.dgates = plan.place("dgates", gradients.dgates, shapes.dgates, shapes.numbers, wants.gates);
  cpu::attend_backward(team, attention);
  for (const backend::RotaryProblem& turned : turns) cpu::rotate(team, turned);

  // Through the projections.
  Tensor* const dinputs[] = {&gradients.dquery, &gradients.dkey, &gradients.dvalue};
  for (std::size_t g = 0; g < 3; ++g) {
    if (g >= plan.groups.size()) {
      *dinputs[g] = Tensor();
      continue;
    }
    const ops::ProjectionGroup& group = plan.groups[g];
    through_projection(team, plan, group, dparts.buffers[g], d,
                       plan.place("gradient of an input", *dinputs[g], group.input.shape(), dtype));
  }
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
