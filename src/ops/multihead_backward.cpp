// The layer backward: through W_O, attention and the projections, as one op that holds the team.
#include "backend/attention.h"
#include "backend/dropout.h"
#include "core/context.h"
#include "ops/check.h"
#include "ops/multihead_plan.h"
#include "ops/projection.h"
#include "ops/resolve.h"
#include "ops/rotary.h"
#include "polyhead/layer.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "multihead_backward";

// Shared memory of the team, by slot; 0 to 2 hold the gradients of the groups.
constexpr std::size_t kDoutput = 3, kDheads = 4;

TensorView place(Tensor& tensor, bool wanted, const Dims& shape, DType dtype) {
  if (wanted) return ops::reuse(tensor, shape, dtype);
  tensor = Tensor();
  return {};
}

// Gradients have the shapes of the parameters; absent ones stay absent.
MultiHeadParameters<TensorView> lay_out(const MultiHeadViews& like, MultiHeadTensors& to) {
  const auto one = [](const ConstTensorView& view, Tensor& tensor) {
    return place(tensor, view.present(), view.shape(), view.dtype());
  };
  return {.in_proj_weight = one(like.in_proj_weight, to.in_proj_weight),
          .q_proj_weight = one(like.q_proj_weight, to.q_proj_weight),
          .k_proj_weight = one(like.k_proj_weight, to.k_proj_weight),
          .v_proj_weight = one(like.v_proj_weight, to.v_proj_weight),
          .in_proj_bias = one(like.in_proj_bias, to.in_proj_bias),
          .out_proj_weight = one(like.out_proj_weight, to.out_proj_weight),
          .out_proj_bias = one(like.out_proj_bias, to.out_proj_bias)};
}

void expect(std::string_view name, const ConstTensorView& view, const Dims& shape, DType dtype, const char* mend) {
  const ops::Argument argument{kOp, name, view};
  if (!view.present()) argument.refuse(ErrorCode::shape, to_string(shape), mend);
  argument.expect_dtype(dtype);
  argument.expect_shape(shape);
  argument.expect_memory();
  argument.expect_last_stride_one();
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
  const ops::MultiHeadPlan plan(kOp, team, shape, parameters, inputs);
  const DType dtype = plan.dtype;
  const Dims merged{plan.batch, plan.queries, plan.inner()}, outer{plan.batch, plan.queries, plan.shape.width};
  const char* const mend = "call multihead with MultiHeadWants::training()";
  expect("upstream output", upstream.output, outer, dtype, "");
  expect("forward heads", forward.heads, merged, dtype, mend);
  ops::check_dropout(kOp, "output_dropout", options.output_dropout);

  std::vector<TensorView> dparts;
  TensorView dheads_of[3];
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const ops::ProjectionGroup& group = plan.groups[g];
    dparts.push_back(ops::in_shared_memory(team, g, plan.buffer_shape(group), dtype));
    for (int part = group.first; part < group.first + group.parts; ++part) {
      dheads_of[part] = plan.heads_of(dparts[g], group, static_cast<ops::Part>(part));
    }
  }
  const TensorView dheads = ops::in_shared_memory(team, kDheads, merged, dtype);
  const Projections& projections = forward.projections;
  for (const auto& [name, view, like] : {std::tuple{"forward q", projections.q, dheads_of[ops::kQuery]},
                                         {"forward k", projections.k, dheads_of[ops::kKey]},
                                         {"forward v", projections.v, dheads_of[ops::kValue]}}) {
    expect(name, view, like.shape(), dtype, mend);
  }
  backend::AttentionGradientProblem attention =
      ops::resolve_backward(kOp, projections.q, projections.k, projections.v, options.attention,
                            {plan.as_heads(dheads), upstream.lse, upstream.weights}, wants,
                            {plan.as_heads(forward.heads.view()), forward.lse});
  std::vector<backend::RotaryProblem> turns;
  if (options.rotary) {
    turns.push_back(ops::resolve(kOp, dheads_of[ops::kQuery], *options.rotary, options.query_positions));
    turns.push_back(ops::resolve(kOp, dheads_of[ops::kKey], *options.rotary, options.key_positions));
    for (int part : {0, 1}) {
      turns[static_cast<std::size_t>(part)].y = dheads_of[part];
      turns[static_cast<std::size_t>(part)].backwards = true;
    }
  }

  // Through W_O.
  const MultiHeadParameters<TensorView> d = lay_out(parameters, gradients.dparameters);
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
  attention.dq = dheads_of[ops::kQuery];
  attention.dk = dheads_of[ops::kKey];
  attention.dv = dheads_of[ops::kValue];
  attention.dbias =
      ops::broadcast_gradient(kOp, attention, place(gradients.dbias, wants.bias, shapes.dbias, shapes.bias_dtype));
  attention.dsink_logit = place(gradients.dsink_logit, wants.sink_logit, shapes.dsink_logit, shapes.numbers);
  attention.dgates = place(gradients.dgates, wants.gates, shapes.dgates, shapes.numbers);
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
    through_projection(team, plan, group, dparts[g], d, ops::reuse(*dinputs[g], group.input.shape(), dtype));
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
