// Attention with everything resolved: what ops hands to a backend. Defaults are filled in, broadcasts have stride 0,
// lengths and packing have become sequences. All that is left to check is values, which check_attention does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/mask.h"
#include "kernels/sequences.h"
#include "polyhead/attention.h"

namespace polyhead::kernels {

struct AttentionProblem {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  DType dtype = DType::f32;
  ConstTensorView q, k, v;
  Sequences sequences;

  double scale = 1, softcap = 0;
  MaskOptions mask;
  ConstTensorView keep, bias;    // [B,H,T,S], stride 0 where broadcast
  ConstTensorView alibi, gates;  // [N,H], stride 0 over N if given per head
  ConstTensorView sink_logit;    // [H]
  Dropout dropout;

  TensorView output, lse, weights, logits, statistics, row_statistics;  // absent: not wanted
  LogitStage logit_stage = LogitStage::none;
  std::vector<std::int32_t> weight_head_of, weight_row_of;  // head or row -> its index in weights and logits, or -1
  bool weights_in_order = false;                            // row t of weights and logits is query row t, for all t
  StatisticsSet statistics_set = StatisticsSet::none;
  ConstTensorView marked_keys, target_keys;

  int statistics_width() const noexcept {
    return statistics_set == StatisticsSet::full ? kFullStatistics : kLightStatistics;
  }
  PositionMask<std::int64_t> mask_of(const Sequence& sequence) const noexcept { return {mask, sequence}; }
};

// The backward pass of a problem. `output` and `lse` are the results of its forward pass, and may be absent; or merged,
// those of all keys, of which the problem has a shard: then they are there, and dweights are not.
struct AttentionGradientProblem {
  AttentionProblem forward;
  ConstTensorView output, lse;
  bool merged = false;
  std::int64_t all_heads = 0;  // if the problem has some heads of so many: sums are cut as those of all would be
  ConstTensorView doutput, dlse, dweights;            // dlse and dweights may be absent
  TensorView dq, dk, dv, dbias, dsink_logit, dgates;  // the last three are absent if not wanted
};

}  // namespace polyhead::kernels
