#include "ops/shared_heads.h"

#include "ops/linear.h"

namespace polyhead::ops {

SharedHeads::SharedHeads(const MultiHeadPlan& plan, SharedPass& pass, const AttentionWants& wants)
    : plan_(plan), pass_(pass), rank_(pass.rank()) {
  if (plan.op.device != Device{}) refuse("expected a context of the CPU, found one of " + to_string(plan.op.device));
  if (plan.groups.size() > 1) refuse("expected self-attention, found a key of its own");
  if (wants.weights || wants.logits != LogitStage::none || wants.statistics != StatisticsSet::none) {
    refuse("expected no reports of heads (weights, logits, statistics)");
  }
}

SharedHeads::SharedHeads(const MultiHeadPlan& plan, SharedPass& pass, const GradientWants& wants)
    : SharedHeads(plan, pass, AttentionWants{}) {
  if (wants.bias || wants.sink_logit) refuse("expected no gradient of bias or sink_logit");
}

void SharedHeads::refuse(const std::string& what) const {
  throw Error(ErrorCode::unsupported, plan_.op, what + " in a pass that ranks share");
}

Some SharedHeads::heads_of(int rank, Part part) const {
  const Some kv = pass_.of(rank, plan_.shape.kv_heads);
  const std::int64_t each = part == kQuery ? plan_.shape.heads / plan_.shape.kv_heads : 1;
  return {kv.first * each, kv.last * each};
}

Some SharedHeads::columns_of(int rank, Part part) const {
  const Some heads = heads_of(rank, part);
  std::int64_t begin = 0;
  for (int before = kQuery; before < part; ++before) begin += plan_.part_rows[before];
  return {begin + heads.first * plan_.shape.head_dim, begin + heads.last * plan_.shape.head_dim};
}

void SharedHeads::project(const Call& call, const TensorView& buffer) const {
  if (none()) return;
  const ProjectionGroup& group = plan_.groups[0];
  for (const Part part : {kQuery, kKey, kValue}) {
    const auto [begin, end] = columns_of(rank_, part);
    const ConstTensorView bias = group.bias.present() ? group.bias.slice(0, begin, end) : group.bias;
    linear(call, group.input, group.weight.slice(0, begin, end), bias, buffer.slice(2, begin, end));
  }
}

void SharedHeads::through_out(const Call& call, const ConstTensorView& doutput, const TensorView& dheads) const {
  const auto [begin, end] = columns_of(rank_, kQuery);
  if (begin < end) linear_dx(call, doutput, plan_.out_weight.slice(1, begin, end), dheads.slice(2, begin, end));
}

void SharedHeads::gather_projections(const Call& call, const TensorView& buffer, int end) const {
  pass_.gather(call, [&](int rank) {
    SharedPass::Views parts;
    for (int part = kQuery; part < end; ++part) {
      const Some columns = columns_of(rank, static_cast<Part>(part));
      parts.push_back(buffer.slice(2, columns.first, columns.last));
    }
    return parts;
  });
}

void SharedHeads::gather_heads(const Call& call, const TensorView& heads) const {
  gather_projections(call, heads, kQuery + 1);  // which begin as the buffer does
}

void SharedHeads::gather_gates(const Call& call, const TensorView& dgates) const {
  pass_.gather(call, [&](int rank) {
    const Some heads = heads_of(rank, kQuery);
    return SharedPass::Views{dgates.slice(1, heads.first, heads.last)};
  });
}

void SharedHeads::narrow(kernels::AttentionProblem& problem) const {
  const Some heads = heads_of(rank_, kQuery), kv_heads = heads_of(rank_, kKey);
  problem.heads = heads.last - heads.first;
  problem.kv_heads = kv_heads.last - kv_heads.first;
  problem.k = own(problem.k, kKey);
  problem.v = own(problem.v, kValue);
  for (ConstTensorView* x : {&problem.q, &problem.keep, &problem.bias, &problem.alibi, &problem.gates}) {
    if (x->present()) *x = own(*x, kQuery);
  }
  for (TensorView* x : {&problem.output, &problem.lse}) {
    if (x->present()) *x = own(*x, kQuery);
  }
  if (problem.sink_logit.present()) problem.sink_logit = problem.sink_logit.slice(0, heads.first, heads.last);
  problem.dropout.origin.head += heads.first;
}

void SharedHeads::narrow(kernels::AttentionGradientProblem& problem) const {
  problem.all_heads = plan_.shape.heads;
  narrow(problem.forward);
  for (ConstTensorView* x : {&problem.output, &problem.lse, &problem.doutput, &problem.dlse, &problem.dweights}) {
    if (x->present()) *x = own(*x, kQuery);
  }
  problem.dq = own(problem.dq, kQuery);
  problem.dk = own(problem.dk, kKey);
  problem.dv = own(problem.dv, kValue);
  if (problem.dgates.present()) problem.dgates = own(problem.dgates, kQuery);
}

}  // namespace polyhead::ops
