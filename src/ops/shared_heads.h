// The layer in a shared pass: each rank has some kv heads, with the query heads that read them.
#pragma once

#include "ops/multihead_plan.h"
#include "ops/shared_pass.h"

namespace polyhead::ops {

class SharedHeads {
 public:
  // Refuses (unsupported) what is not shared: cross-attention, reports of heads, gradients that sum over heads.
  SharedHeads(const MultiHeadPlan& plan, SharedPass& pass, const AttentionWants& wants);
  SharedHeads(const MultiHeadPlan& plan, SharedPass& pass, const GradientWants& wants);

  bool none() const { return heads_of(rank_, kKey).none(); }  // there are more ranks than kv heads
  // x [B,H,T,D] or [B,G,S,D] of a part, as the heads of it that are ours.
  template <class View>
  View own(const View& x, Part part) const {
    const Some heads = heads_of(rank_, part);
    return x.slice(1, heads.first, heads.last);
  }

  // q, k and v of our heads: those columns of buffer [B,T,(H+2G)*D].
  void project(const Call& call, const TensorView& buffer) const;
  // dheads [B,T,H*D] = doutput W_O, of our heads.
  void through_out(const Call& call, const ConstTensorView& doutput, const TensorView& dheads) const;
  // Parts [kQuery, end) of such a buffer, and heads [B,T,H*D] and dgates [N,H], each rank having filled in its own.
  void gather_projections(const Call& call, const TensorView& buffer, int end) const;
  void gather_heads(const Call& call, const TensorView& heads) const;
  void gather_gates(const Call& call, const TensorView& dgates) const;

  // A problem of all heads as one of ours, with dropout, slopes, gates and sums of the whole.
  void narrow(kernels::AttentionProblem& problem) const;
  void narrow(kernels::AttentionGradientProblem& problem) const;

 private:
  Some heads_of(int rank, Part part) const;
  Some columns_of(int rank, Part part) const;  // of the buffer
  void refuse(const std::string& what) const;

  const MultiHeadPlan& plan_;
  SharedPass& pass_;
  int rank_;
};

}  // namespace polyhead::ops
