// The layer forward, as one op that holds the executor from the first product to the last.
#include "ops/multihead.h"

#include "core/row_major.h"
#include "ops/head_norms.h"
#include "ops/linear.h"
#include "ops/multihead_plan.h"
#include "ops/resolve.h"
#include "ops/shared_heads.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "multihead";

// The memory of earlier results may be written again, but not if the call reads from it.
void expect_apart(const ops::MultiHeadPlan& plan, const MultiHeadResults& results) {
  plan.expect_apart("output", results.output);
  plan.expect_apart("heads", results.heads);
  plan.expect_apart("lse", results.lse);
  plan.expect_apart("weights", results.weights);
  plan.expect_apart("logits", results.logits);
  plan.expect_apart("statistics", results.statistics);
  plan.expect_apart("row_statistics", results.row_statistics);
  for (const Tensor& buffer : results.projections.buffers) plan.expect_apart("projections", buffer);
}

void check_residual(const ops::MultiHeadPlan& plan, bool mixes_types, const ops::Residual& residual,
                    const MultiHeadOptions& options) {
  if (!residual.plus.present()) return;
  const ops::Argument plus{plan.op, "residual", residual.plus}, bias{plan.op, "residual's bias", residual.bias};
  const DType dtype = ops::sum_type(residual.plus, plan.dtype);
  plus.expect_input({plan.batch, plan.queries, plan.shape.width}, dtype);
  if (!is_row_major(residual.plus)) plus.refuse(ErrorCode::layout, "row-major memory");
  if (!mixes_types && size_of(dtype) == 2) plus.refuse(ErrorCode::dtype, "f32 or f64 on this device");
  if (plan.shape.bias) {
    bias.expect_input({plan.shape.width}, dtype);
    bias.expect_last_stride_one();
  }
  if (options.output_dropout.p > 0) {
    throw Error(ErrorCode::unsupported, kOp,
                "output_dropout: expected none beside a residual, which it would drop too");
  }
}

}  // namespace

void ops::multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                    const PackedProjections& packed, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                    const MultiHeadWants& wants, const Residual& residual, MultiHeadResults& results,
                    SharedPass* shared) {
  // Everything is checked first, so that a call that throws has written and released nothing.
  const Call call(context);
  MultiHeadPlan plan(kOp, call, shape, parameters, inputs);
  const ProjectionBuffers like(plan, [&](std::size_t, const Dims& buffer) { return plan.stand_in(buffer); });
  kernels::AttentionProblem attention =
      resolve(plan.op, like.part[kQuery], like.part[kKey], like.part[kValue], options.attention, wants.attention);
  plan.rotations(options, like.part[kQuery], like.part[kKey], false);
  check_output_dropout(kOp, options.output_dropout);
  if (shape.qk_norm && !(options.qk_norm_epsilon > 0)) {
    throw Error(ErrorCode::value, kOp, "qk_norm_epsilon: expected a positive number");
  }
  plan.reads(tensors_of(options.attention, wants.attention));
  plan.reads(tensors_of_rotary(options));
  std::optional<SharedHeads> own;
  if (shared != nullptr) own.emplace(plan, *shared, wants.attention);
  check_residual(plan, call.executor().kernels().mixes_types, residual, options);
  plan.reads({residual.plus, residual.bias});
  expect_apart(plan, results);
  call(&Table::check_attention, plan.op, attention);

  const AttentionWants& w = wants.attention;
  const bool longest = needs_longest_keys(attention, w);
  const AttentionShapes shapes =
      shapes_of(attention, w, longest ? longest_keys(*plan.memory, options.attention.cu_k) : 0);
  const std::vector<Dims> norms = wants.projections ? kept_by_norms(plan) : std::vector<Dims>{};
  results.projections.buffers.resize(wants.projections ? plan.groups.size() + norms.size() : 0);
  const ProjectionBuffers projections(plan, [&](std::size_t g, const Dims& buffer) {
    return wants.projections ? plan.place(results.projections.buffers[g], buffer, plan.dtype)
                             : call.scratch(scratch_of_group(g), buffer, plan.dtype);
  });
  std::vector<TensorView> normed;
  for (std::size_t n = 0; n < norms.size(); ++n) {
    normed.push_back(plan.place(results.projections.buffers[plan.groups.size() + n], norms[n], plan.dtype));
  }
  const Dims merged{plan.batch, plan.queries, plan.inner()}, outer{plan.batch, plan.queries, plan.shape.width};
  const TensorView kept_heads = plan.place(results.heads, merged, plan.dtype, wants.heads);
  const TensorView heads = wants.heads ? kept_heads : call.scratch(ScratchSlot::heads, merged, plan.dtype);
  const bool onto = residual.plus.present();
  const TensorView output = plan.place(results.output, outer, onto ? residual.plus.dtype() : plan.dtype);
  attention.output = plan.as_heads(heads);
  attention.lse = plan.place(results.lse, shapes.lse, shapes.numbers, w.lse);
  attention.weights = plan.place(results.weights, shapes.weights, shapes.weights_dtype, w.weights);
  attention.logits = plan.place(results.logits, shapes.weights, shapes.numbers, w.logits != LogitStage::none);
  attention.statistics =
      plan.place(results.statistics, shapes.statistics, shapes.numbers, w.statistics != StatisticsSet::none);
  attention.row_statistics =
      plan.place(results.row_statistics, shapes.row_statistics, shapes.numbers, w.row_statistics);

  if (own) own->project(call, projections.buffers[0]);
  if (own && plan.shape.qk_norm) own->gather_projections(call, projections.buffers[0], kValue);
  for (std::size_t g = 0; !own && g < plan.groups.size(); ++g) {
    const bool whole = plan.groups.size() == 1;  // self-attention
    linear(call, plan.groups[g].input, plan.groups[g].weight, plan.groups[g].bias, projections.buffers[g],
           {.packed = whole ? packed.in : nullptr});
  }
  const auto [q, k] = normalise_heads(call, plan, parameters, options, projections, normed);
  const TensorView turned[] = {own ? own->own(q, kQuery) : q, own ? own->own(k, kKey) : k};
  for (const kernels::RotaryProblem& rotation : plan.rotations(options, turned[0], turned[1], false)) {
    call(&Table::rotate, rotation);
  }
  attention.q = q;
  attention.k = k;
  attention.v = projections.part[kValue];
  results.projections.q = wants.projections ? q : TensorView{};
  results.projections.k = wants.projections ? k : TensorView{};
  results.projections.v = wants.projections ? projections.part[kValue] : TensorView{};
  if (own) own->narrow(attention);
  if (!own || !own->none()) call(&Table::attend, attention);
  if (own) own->gather_heads(call, heads);
  linear(call, heads, plan.out_weight, onto ? residual.bias : plan.out_bias, output,
         {.packed = packed.out, .plus = residual.plus, .shared = shared});
  if (options.output_dropout.p > 0) call(&Table::drop, {output, output, options.output_dropout});
}

void multihead_into(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                    const MultiHeadInputs& inputs, const MultiHeadOptions& options, const MultiHeadWants& wants,
                    MultiHeadResults& results) {
  ops::multihead(context, shape, parameters, {}, inputs, options, wants, {}, results);
}

MultiHeadResults multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                           const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                           const MultiHeadWants& wants) {
  MultiHeadResults results;
  multihead_into(context, shape, parameters, inputs, options, wants, results);
  return results;
}

}  // namespace polyhead
