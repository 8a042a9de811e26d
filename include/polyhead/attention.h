// Fused attention that shows its heads.
//
//   s_ij = scale * q_i . k_j   -> softcap -> + bias -> + alibi -> masked
//   p_i  = softmax(s_i)        o_i = gate * sum_j p_ij v_j
//
// Letters: B batch, H query heads, G key/value heads, T queries, S keys, D head dim, E value dim.
// Shapes:  q [B,H,T,D], k [B,G,S,D], v [B,G,S,E], output [B,H,T,E]. Any strides, as long as the last one is 1: memory
// laid out [B,T,H,D] is passed as a view and never transposed. Memory use is O(T); no [T,S] matrix exists unless
// weights or logits are requested. q, k and v share one type, except that f32 queries may read f16 or bf16 k and v
// (forward only). Every single size is below 2^31.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "polyhead/context.h"
#include "polyhead/export.h"
#include "polyhead/tensor.h"

namespace POLYHEAD_PUBLIC polyhead {

// The position p_i of query i among the keys. top_left: p_i = i. bottom_right: the last query is at the last key,
// p_i = i + S_b - T_b with each sequence's own lengths. Required when T != S and anything depends on position.
enum class Align : std::uint8_t { unset, top_left, bottom_right };

inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Key j is in the window of query i if p_i - left <= j <= p_i + right, or j < always_first.
struct Window {
  std::int64_t left = kUnlimited;
  std::int64_t right = kUnlimited;
  std::int64_t always_first = 0;

  friend bool operator==(const Window&, const Window&) = default;
};

// Where a call that is a part of a larger one begins in it: its first sequence, head, query and key, each below 2^32.
struct Origin {
  std::int64_t sequence = 0, head = 0, row = 0, key = 0;

  friend bool operator==(const Origin&, const Origin&) = default;
};

// Philox4x32-10 keyed by seed; the same mask for any backend, thread count and block size. It is counted from `origin`,
// so that parts of a call (heads, queries, keys, sequences) drop what the whole call drops. Not on a GPU.
struct Dropout {
  double p = 0;
  std::uint64_t seed = 0;
  Origin origin{};
};

// Everything is optional. A default-constructed view means the tensor is absent.
struct AttentionOptions {
  std::optional<double> scale{};  // default 1/sqrt(D)
  double softcap = 0;             // c > 0: s <- c * tanh(s / c)
  Align align = Align::unset;
  // The position of query 0, instead of align: p_i = first_position + i. One number for all sequences, or one for each,
  // i32 or i64 [B] ([N] if packed). For chunked prefill, and for a past whose length is not S - T.
  std::optional<std::int64_t> first_position{};
  ConstTensorView first_positions{};
  bool causal = false;  // j <= p_i
  Window window{};

  ConstTensorView keep{};   // bool, broadcastable to [B,H,T,S]: true = may attend
  ConstTensorView bias{};   // float, broadcastable to [B,H,T,S], added after the softcap; -inf masks, +inf is an error
  ConstTensorView alibi{};  // slopes [H] or [B,H] ([N,H] if packed): s <- s - slope * |p_i - j|

  // Padded batches: keys [key_start, key_lengths) and queries [0, query_lengths) of each sequence exist. i32 or i64
  // [B]. Positions count from key_start.
  ConstTensorView key_lengths{}, key_start{}, query_lengths{};
  // Packed batches: B = 1, sequence n owns queries [cu_q[n], cu_q[n+1]) and keys [cu_k[n], cu_k[n+1]). i32 or i64
  // [N+1].
  ConstTensorView cu_q{}, cu_k{};

  ConstTensorView sink_logit{};  // [H]: one more logit in the denominator, with no value
  Dropout dropout{};
  // [H] or [B,H] ([N,H] if packed): o <- gate * o. A head with gate 0 costs nothing; one with gate NaN gives NaN in
  // output and gradients, not in lse and weights.
  ConstTensorView gates{};
};

// What every head did, computed inside the fused loop. All but max_logit (a maximum) are sums over rows; for a mean
// divide x_weight or x_entropy by x_rows, if there is such a count, and otherwise by rows. "Weight" is the softmax
// weight before dropout; a sink takes its share of it.
enum class Statistic : int {
  rows,                // count: rows with a visible key
  entropy,             // in nats, over keys and sink; by rows
  normalised_rows,     // count: rows with two or more outcomes
  normalised_entropy,  // entropy / ln(outcomes of the row); by normalised_rows
  max_weight,          // largest weight of a key; by rows
  max_offset,          // j - p_i of that key (of the first, in a tie); by rows
  max_logit,           // largest logit of all rows
  first_weight,        // on the first visible key; by rows
  self_rows,           // count: rows that see j = p_i
  self_weight,
  previous_rows,  // count: rows that see j = p_i - 1
  previous_weight,
  next_rows,  // count: rows that see j = p_i + 1
  next_weight,
  // The full set adds:
  distance,                         // sum_j p_ij |p_i - j|; by rows
  marked_weight,                    // on the marked keys; by rows
  target_rows,                      // count: rows that see their target key, slots 0 to 3
  target_weight = target_rows + 4,  // on that key, slots 0 to 3
  sink_weight = target_weight + 4,  // on the sink; by rows
};
// How merge_attention makes a row's field from those of shards of its keys.
enum class StatisticMerge : std::uint8_t {
  added,     // their sum
  weighted,  // their sum, each times the shard's share of the row's weight
  together,  // from several fields, by a rule of its own
  unknown,   // NaN for the rows that its mean counts: what it takes is in no shard
};
struct StatisticField {
  std::string_view name;
  StatisticMerge merge;
};
inline constexpr StatisticField kStatistics[] = {{"rows", StatisticMerge::together},
                                                 {"entropy", StatisticMerge::together},
                                                 {"normalised_rows", StatisticMerge::together},
                                                 {"normalised_entropy", StatisticMerge::unknown},
                                                 {"max_weight", StatisticMerge::together},
                                                 {"max_offset", StatisticMerge::together},
                                                 {"max_logit", StatisticMerge::together},
                                                 {"first_weight", StatisticMerge::together},
                                                 {"self_rows", StatisticMerge::added},
                                                 {"self_weight", StatisticMerge::weighted},
                                                 {"previous_rows", StatisticMerge::added},
                                                 {"previous_weight", StatisticMerge::weighted},
                                                 {"next_rows", StatisticMerge::added},
                                                 {"next_weight", StatisticMerge::weighted},
                                                 {"distance", StatisticMerge::weighted},
                                                 {"marked_weight", StatisticMerge::weighted},
                                                 {"target_0_rows", StatisticMerge::added},
                                                 {"target_1_rows", StatisticMerge::added},
                                                 {"target_2_rows", StatisticMerge::added},
                                                 {"target_3_rows", StatisticMerge::added},
                                                 {"target_0_weight", StatisticMerge::weighted},
                                                 {"target_1_weight", StatisticMerge::weighted},
                                                 {"target_2_weight", StatisticMerge::weighted},
                                                 {"target_3_weight", StatisticMerge::weighted},
                                                 {"sink_weight", StatisticMerge::weighted}};
inline constexpr int kLightStatistics = static_cast<int>(Statistic::distance);
inline constexpr int kFullStatistics = static_cast<int>(std::size(kStatistics));
constexpr std::string_view name_of(Statistic statistic) noexcept {
  const auto index = static_cast<std::size_t>(statistic);
  return index < std::size(kStatistics) ? kStatistics[index].name : std::string_view("?");
}

enum class StatisticsSet : std::uint8_t { none, light, full };

// Logits after one of the steps: scale * q . k; then softcap; then bias and alibi.
enum class LogitStage : std::uint8_t { none, scaled, capped, biased };

// Which results are wanted besides the output.
struct AttentionWants {
  bool lse = false;                                         // [B,H,T]: log of the denominator
  bool weights = false;                                     // [B,heads,rows,S]; packed: S is the longest sequence's
  std::vector<std::int32_t> weight_heads{}, weight_rows{};  // of these heads and rows, in this order; empty: all
  bool weights_f32 = false;                                 // f32 weights where the input is f16 or bf16
  LogitStage logits = LogitStage::none;  // shaped like weights, for the same heads and rows; -inf for hidden keys
  StatisticsSet statistics = StatisticsSet::none;  // [B,H,kLightStatistics or kFullStatistics]; packed: [N,H,..]
  bool row_statistics = false;                     // the same fields for every row, [B,H,T,..]
  ConstTensorView marked_keys{};                   // bool [B,S]: separators, rare tokens and the like (full set)
  ConstTensorView target_keys{};                   // i32 [B,T,4]: up to four keys per query, -1 for none (full set)
};

// The results that were wanted; the rest are absent. lse, logits and statistics are f32 (f64 for f64 input).
struct Attention {
  Tensor output, lse, weights, logits, statistics, row_statistics;
};
struct AttentionOutputs {
  TensorView output{}, lse{}, weights{}, logits{}, statistics{}, row_statistics{};
};

Attention attend(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                 const AttentionOptions& options = {}, const AttentionWants& wants = {});

// The same into the caller's memory, which must overlap neither the inputs nor itself (a tensor's memory spans its
// first to its last element). Exactly the wanted outputs must be present.
void attend_into(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                 const AttentionOptions& options, const AttentionWants& wants, const AttentionOutputs& outputs);

// Which gradients of optional inputs are wanted; those of q, k and v are always computed.
struct GradientWants {
  bool bias = false, sink_logit = false, gates = false;
};

// Upstream gradients: of the output [B,H,T,E], and optionally of lse [B,H,T] and of all weights [B,H,T,S]. Messages
// call them doutput, dlse and dweights.
struct UpstreamGradients {
  ConstTensorView output{}, lse{}, weights{};
};

// Output and lse of the forward pass with the same arguments. If absent, both are recomputed.
struct ForwardResults {
  ConstTensorView output{}, lse{};
  // They are those of more keys than this call's k and v, which are one shard of several (a ring, a cache in pieces):
  // p_ij = exp(s_ij - lse_i) and delta_i = doutput_i . output_i - dlse_i, whatever this shard's own sums are. dk and
  // dv are then those of the whole call, and so is dbias, unless it is broadcast over keys; that one, dq and dgates of
  // all shards add up to it. Without this, kernels may sum the rows anew, which is more exact and reads less. Not with
  // dweights, and not on a GPU.
  bool merged = false;
};

// Shapes and types are those of the inputs; dbias is summed over broadcast axes; dgates is per sequence, [B,H] ([N,H]
// if packed). The same bits for any number of threads.
struct AttentionGradients {
  Tensor dq, dk, dv, dbias, dsink_logit, dgates;
};
struct AttentionGradientOutputs {
  TensorView dq{}, dk{}, dv{}, dbias{}, dsink_logit{}, dgates{};
};

AttentionGradients attend_backward(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                                   const ConstTensorView& v, const AttentionOptions& options,
                                   const UpstreamGradients& upstream, const GradientWants& wants = {},
                                   const ForwardResults& forward = {});
void attend_backward_into(Context& context, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options, const UpstreamGradients& upstream,
                          const GradientWants& wants, const ForwardResults& forward,
                          const AttentionGradientOutputs& outputs);

// Merges the statistics of more rows (another batch, chunk or rank) into a total: counts and sums add, max_logit takes
// the larger. `into` may be f64 where `more` is f32, for totals of many chunks.
void merge_statistics(const TensorView& into, const ConstTensorView& more);

// What attend gave for one shard of a call's keys: the output [B,H,T,E] of any float type, best f32; lse [B,H,T]; and
// row statistics, if some are to be merged.
struct AttentionPart {
  ConstTensorView output{}, lse{}, row_statistics{};
};
// The results of the call with all keys, from those of its shards in the order of their keys. Each key is in one shard,
// and sink_logit is given to one shard only; a shard may be empty, or hold nothing that a row sees. Written are the
// output, of any float type, and of lse, row_statistics and statistics what is present, f32 or f64 (so that a merge of
// merges need not round). Statistics come from the parts' row statistics, which must be there then; all of them are
// exact but normalised_entropy, which is NaN: how many keys a row sees is in no shard. Weights and logits are refused.
// In host memory, apart from the parts'.
void merge_attention(std::span<const AttentionPart> parts, const AttentionOutputs& into);

// The path a call would take, in words, and why it is not a faster one; throws what the call would throw.
std::string explain(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                    const AttentionOptions& options = {}, const AttentionWants& wants = {});

}  // namespace polyhead
