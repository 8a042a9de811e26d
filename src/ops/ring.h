// Attention over a sequence that lies on several ranks, each with some of the queries and of the keys, in the order of
// the ranks. Keys and values go around; a rank computes with one shard after the other and merges what it saw, so that
// nobody ever holds the whole sequence. On the CPU.
#pragma once

#include "core/ranks.h"
#include "polyhead/attention.h"

namespace polyhead::ops {

// Of this rank's queries: output [B,H,T,E] in q's type, lse [B,H,T].
struct RingAttention {
  Tensor output, lse;
};

// q [B,H,T,D], k [B,G,S,D], v [B,G,S,E]: this rank's rows; T and S may differ from rank to rank. Positions, windows and
// dropout are those of the whole sequence; align is, too. Parts are added in f32 or more, whatever the type. Takes
// scale, softcap, align, first_position, causal, window, alibi, sink_logit, dropout and gates, the same on all ranks;
// the other options are refused.
RingAttention ring_attend(Context& context, Ranks& ranks, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options);

// dq, dk and dv of this rank's rows; dsink_logit [H] and dgates [B,H] of the whole call, if wanted. `upstream` has the
// gradients of this rank's output and, if given, lse; `forward` is what ring_attend gave.
AttentionGradients ring_attend_backward(Context& context, Ranks& ranks, const ConstTensorView& q,
                                        const ConstTensorView& k, const ConstTensorView& v,
                                        const AttentionOptions& options, const UpstreamGradients& upstream,
                                        const GradientWants& wants, const RingAttention& forward);

}  // namespace polyhead::ops
