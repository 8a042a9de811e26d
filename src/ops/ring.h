// Attention over a sequence that lies on several ranks, each with some of the queries and of the keys. Keys and values
// go from rank to rank while the last ones are computed with; a rank merges what it saw, so that nobody ever holds the
// whole sequence. On the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ranks.h"
#include "polyhead/attention.h"

namespace polyhead::ops {

// Which rows of the sequence a rank has: neighbours, in the order of the ranks; or two halves. Then the sequence is cut
// into chunks, two for each of n ranks, and rank r has chunk r and chunk 2n-1-r, which follow each other in its
// tensors: the larger half of its rows and the rest. In a causal call ranks have then equally much to do.
enum class RingOrder : std::uint8_t { in_turn, halves };

struct Ring {
  Ranks& ranks;
  RingOrder order = RingOrder::in_turn;
};

// Rows [begin, end) of the sequence.
struct RowRange {
  std::int64_t begin = 0, end = 0;

  std::int64_t count() const { return end - begin; }
};
// Those on a rank, in the order of its tensors, if ranks have so many each: one range, or two.
std::vector<RowRange> rows_on(int rank, const std::vector<std::int64_t>& counts, RingOrder order);
// As many for each rank, but for one.
std::vector<std::int64_t> evenly(std::int64_t rows, int ranks);

// Of this rank's queries: output [B,H,T,E] in q's type, lse [B,H,T], row_statistics [B,H,T,..] if wanted; statistics
// [B,H,..] ([N,H,..] if packed) of the whole call. Of 16 bits the output is there in f32, too, which the backward pass
// reads: the gradients of sinks are sums that its rounding would show in.
struct RingAttention {
  Tensor output, lse, statistics, row_statistics, wide_output;
};

// q [B,H,T,D], k [B,G,S,D], v [B,G,S,E]: this rank's rows; T and S may differ from rank to rank. Options are those of
// the call with the whole sequence, the same on all ranks: positions, lengths, offsets (cu_q, cu_k), windows, dropout.
// marked_keys [B,S] and target_keys [B,T,4] are this rank's; a target is a key's place in the whole sequence.
// Parts are added in f32 or more, whatever the type. Refused are keep, bias and key_start; cu_q and cu_k together with
// dropout or always_first; weights and logits. normalised_entropy is that of merge_attention, NaN.
RingAttention ring_attend(Context& context, const Ring& ring, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options, const AttentionWants& wants = {});

// dq, dk and dv of this rank's rows; dsink_logit [H] and dgates [B,H] ([N,H] if packed) of the whole call, if wanted.
// `upstream` has the gradients of this rank's output and, if given, lse; `forward` is what ring_attend gave.
AttentionGradients ring_attend_backward(Context& context, const Ring& ring, const ConstTensorView& q,
                                        const ConstTensorView& k, const ConstTensorView& v,
                                        const AttentionOptions& options, const UpstreamGradients& upstream,
                                        const GradientWants& wants, const RingAttention& forward);

}  // namespace polyhead::ops
