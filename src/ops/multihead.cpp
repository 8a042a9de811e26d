// The layer forward, as one op that holds the team from the first product to the last.
#include "ops/multihead.h"

#include "backend/attention.h"
#include "backend/dropout.h"
#include "core/context.h"
#include "ops/check.h"
#include "ops/multihead_plan.h"
#include "ops/projection.h"
#include "ops/resolve.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "multihead";

// Room for q, k and v: one buffer per group, of the caller's or of the team's.
std::vector<TensorView> lay_out(Team& team, const ops::MultiHeadPlan& plan, bool keep, Projections& to) {
  TensorView* const views[] = {&to.q, &to.k, &to.v};
  std::vector<TensorView> buffers;
  to.buffers.resize(keep ? plan.groups.size() : 0);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const ops::ProjectionGroup& group = plan.groups[g];
    const Dims shape = plan.buffer_shape(group);
    buffers.push_back(keep ? plan.place("projections", to.buffers[g], shape, plan.dtype)
                           : ops::in_shared_memory(team, g, shape, plan.dtype));
    for (int part = group.first; part < group.first + group.parts; ++part) {
      *views[part] = plan.heads_of(buffers.back(), group, static_cast<ops::Part>(part));
    }
  }
  return buffers;
}

}  // namespace

void ops::multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                    const PackedWeights* packed, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                    const MultiHeadWants& wants, MultiHeadResults& results) {
  Team& team = context.impl().team();
  const std::lock_guard turn(team.turn);
  const Team::Burst burst(team);
  const ops::MultiHeadPlan plan(kOp, team, shape, parameters, inputs);
  Projections projections = std::move(results.projections);  // what is thrown leaves nothing half made in results
  const std::vector<TensorView> buffers = lay_out(team, plan, wants.projections, projections);
  backend::AttentionProblem attention =
      ops::resolve(kOp, projections.q, projections.k, projections.v, options.attention, wants.attention);
  const ops::AttentionShapes shapes = ops::shapes_of(attention, wants.attention);
  const std::vector<backend::RotaryProblem> turns = plan.turns(options, projections.q, projections.k, false);
  ops::check_dropout(kOp, "output_dropout", options.output_dropout);

  for (std::size_t g = 0; g < buffers.size(); ++g) {
    const bool whole = packed != nullptr && plan.groups.size() == 1;  // self-attention
    ops::project(team, plan.groups[g].input, plan.groups[g].weight, plan.groups[g].bias, buffers[g],
                 whole ? &packed->in_proj : nullptr);
  }
  for (const backend::RotaryProblem& turned : turns) cpu::rotate(team, turned);
  const Dims merged{plan.batch, plan.queries, plan.inner()};
  const TensorView heads = wants.heads ? plan.place("heads", results.heads, merged, plan.dtype)
                                       : ops::in_shared_memory(team, 3, merged, plan.dtype);
  const AttentionWants& w = wants.attention;
  attention.output = plan.as_heads(heads);
  attention.lse = plan.place("lse", results.lse, shapes.lse, shapes.numbers, w.lse);
  attention.weights = plan.place("weights", results.weights, shapes.weights, shapes.weights_dtype, w.weights);
  attention.statistics = plan.place("statistics", results.statistics, shapes.statistics, shapes.numbers,
                                    w.statistics != StatisticsSet::none);
  attention.row_statistics =
      plan.place("row_statistics", results.row_statistics, shapes.row_statistics, shapes.numbers, w.row_statistics);
  cpu::attend(team, attention);

  const TensorView output =
      plan.place("output", results.output, {plan.batch, plan.queries, plan.shape.width}, plan.dtype);
  ops::project(team, heads, plan.out_weight, plan.out_bias, output, packed == nullptr ? nullptr : &packed->out_proj);
  if (options.output_dropout.p > 0) cpu::drop(team, {output, output, options.output_dropout});
  if (!wants.heads) results.heads = Tensor();
  if (wants.projections) results.projections = std::move(projections);
}

void multihead_into(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                    const MultiHeadInputs& inputs, const MultiHeadOptions& options, const MultiHeadWants& wants,
                    MultiHeadResults& results) {
  ops::multihead(context, shape, parameters, nullptr, inputs, options, wants, results);
}

MultiHeadResults multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                           const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                           const MultiHeadWants& wants) {
  MultiHeadResults results;
  multihead_into(context, shape, parameters, inputs, options, wants, results);
  return results;
}

}  // namespace polyhead
