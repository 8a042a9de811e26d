// Attention with everything resolved: what ops hands to a backend. Defaults are filled in, broadcasts have stride 0,
// lengths and packing have become sequences. Kernels check nothing any more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/visibility.h"
#include "polyhead/attention.h"

namespace polyhead {
class Team;
}

namespace polyhead::backend {

// One sequence: which part of the tensors it owns. Queries [query_begin, query_begin + queries) of batch row `batch`
// exist; up to `rows` of them are padding to be cleared. Key j is at key_begin + j. Query i stands at position i +
// offset.
struct Sequence {
  std::int64_t batch = 0;
  std::int64_t query_begin = 0, queries = 0, rows = 0;
  std::int64_t key_begin = 0, keys = 0;
  std::int64_t offset = 0;
  std::int64_t weights_column = 0;  // where key 0 stands in the weights
};

struct AttentionProblem {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  DType dtype = DType::f32;
  ConstTensorView q, k, v;
  std::vector<Sequence> sequences;
  bool packed = false;

  double scale = 1, softcap = 0;
  bool causal = false;
  Window window;
  ConstTensorView keep, bias;         // [B,H,T,S], stride 0 where broadcast
  ConstTensorView alibi, sink_logit;  // [H]
  ConstTensorView gates;              // [N,H], stride 0 over N if given per head
  Dropout dropout;

  TensorView output, lse, weights, statistics, row_statistics;  // absent: not wanted
  std::vector<std::int32_t> weight_head_of, weight_row_of;  // head or row -> its place in the weights, -1 if not wanted
  bool weights_in_order = false;                            // all rows, each in its own place
  StatisticsSet statistics_set = StatisticsSet::none;
  ConstTensorView marked_keys, target_keys;

  int statistics_width() const noexcept {
    return statistics_set == StatisticsSet::full ? kFullStatistics : kLightStatistics;
  }
  Visibility visibility(const Sequence& sequence) const noexcept { return {causal, window, sequence.keys}; }
};

// The backward pass of a problem. The output and lse that its forward pass gave may be absent.
struct AttentionGradientProblem {
  AttentionProblem forward;
  ConstTensorView output, lse;
  ConstTensorView doutput, dlse, dweights;            // dlse and dweights may be absent
  TensorView dq, dk, dv, dbias, dsink_logit, dgates;  // the last three are absent if not wanted
};

}  // namespace polyhead::backend

namespace polyhead::cpu {

void attend(Team& team, const backend::AttentionProblem& problem);
// Does attend take the path for few queries?
bool decodes(const backend::AttentionProblem& problem) noexcept;
void attend_backward(Team& team, const backend::AttentionGradientProblem& problem);

// The vector instruction set in use, and all that this build and machine allow, best first.
std::string target_name();
std::vector<std::string> target_names();

}  // namespace polyhead::cpu

namespace polyhead::cuda {

bool available() noexcept;
std::string reason();  // why not

}  // namespace polyhead::cuda
