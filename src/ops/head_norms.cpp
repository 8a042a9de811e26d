#include "ops/head_norms.h"

#include "ops/norm.h"

namespace polyhead::ops {
namespace {

std::int64_t heads_in(const MultiHeadPlan& plan, int part) {
  return part == kQuery ? plan.shape.heads : plan.shape.kv_heads;
}

}  // namespace

std::vector<Dims> kept_by_norms(const MultiHeadPlan& plan) {
  if (!plan.shape.qk_norm) return {};
  const std::int64_t rows[] = {plan.batch * plan.queries * plan.shape.heads,
                               plan.batch * plan.keys * plan.shape.kv_heads};
  return {{plan.batch, plan.queries, plan.part_rows[kQuery]},
          {plan.batch, plan.keys, plan.part_rows[kKey]},
          {rows[0], 2},
          {rows[1], 2}};
}

QueryAndKey normalise_heads(const Call& call, const MultiHeadPlan& plan, const MultiHeadViews& parameters,
                            const MultiHeadOptions& options, const ProjectionBuffers& projections,
                            const std::vector<TensorView>& kept) {
  if (!plan.shape.qk_norm) return {projections.part[kQuery], projections.part[kKey]};
  TensorView made[2];
  for (const int part : {kQuery, kKey}) {
    const auto at = static_cast<std::size_t>(part);
    const TensorView from = projections.part[part];
    made[part] = kept.empty() ? from : kept[at].split(2, heads_in(plan, part)).transpose(1, 2);
    call(&Table::normalise, {.x = rows_of_heads(from),
                             .gamma = part == kQuery ? parameters.q_norm_weight : parameters.k_norm_weight,
                             .beta = {},
                             .epsilon = options.qk_norm_epsilon,
                             .y = rows_of_heads(made[part]),
                             .mean_rstd = kept.empty() ? TensorView{} : kept[at + 2]});
  }
  return {made[kQuery], made[kKey]};
}

void normalise_heads_backward(const Call& call, const MultiHeadPlan& plan, const MultiHeadViews& parameters,
                              const Projections& forward, const ProjectionBuffers& dparts,
                              const MultiHeadParameters<TensorView>& dparameters) {
  if (!plan.shape.qk_norm) return;
  const auto through = [&](Part part, const ConstTensorView& gamma, const TensorView& dgamma) {
    const std::size_t groups = plan.groups.size(), at = part == kKey && groups > 1 ? 1 : 0;  // the part's group
    const ConstTensorView before = plan.heads_of(forward.buffers[at].view(), plan.groups[at], part);
    const TensorView d = rows_of_heads(dparts.part[part]);
    call(&Table::normalise_backward, {.x = rows_of_heads(before),
                                      .gamma = gamma,
                                      .mean_rstd = forward.buffers[groups + 2 + static_cast<std::size_t>(part)],
                                      .dy = d,
                                      .plus = {},
                                      .centred = false,
                                      .dx = d,
                                      .dgamma = dgamma,
                                      .dbeta = {}});
  };
  through(kQuery, parameters.q_norm_weight, dparameters.q_norm_weight);
  through(kKey, parameters.k_norm_weight, dparameters.k_norm_weight);
}

}  // namespace polyhead::ops
