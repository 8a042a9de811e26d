// Which sequences a batch holds, the positions of their queries, and which keys those may see.
#pragma once

#include <cstdint>
#include <vector>

#include "polyhead/attention.h"

namespace polyhead::reference {

// The queries and keys of one sequence. Places are where they lie in the tensors; i and j count from the first.
struct Sequence {
  std::int64_t index = 0;  // b of a padded batch, n of a packed one
  std::int64_t batch = 0;  // where it lies on axis 0 of the tensors
  std::int64_t first_query = 0, queries = 0;
  std::int64_t first_key = 0, keys = 0;
  std::int64_t shift = 0;  // p_i = i + shift

  std::int64_t position(std::int64_t i) const noexcept { return i + shift; }
  std::int64_t query_place(std::int64_t i) const noexcept { return first_query + i; }
  std::int64_t key_place(std::int64_t j) const noexcept { return first_key + j; }
};

std::vector<Sequence> sequences_of(const ConstTensorView& q, const ConstTensorView& k, const AttentionOptions& options);

// Whether position alone lets a query at p see key j: causal and window.
bool in_reach(const AttentionOptions& options, std::int64_t p, std::int64_t j) noexcept;

// Whether dropout keeps the weight of key j for query i.
bool is_kept(const Dropout& dropout, std::int64_t sequence, std::int64_t head, std::int64_t i, std::int64_t j) noexcept;

// Packed weights have a column per key of the longest sequence, so key j of a sequence is in column j there.
inline std::int64_t weight_column(const AttentionOptions& options, const Sequence& sequence, std::int64_t j) noexcept {
  return options.cu_k.present() ? j : sequence.key_place(j);
}

}  // namespace polyhead::reference
