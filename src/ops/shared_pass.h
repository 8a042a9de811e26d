// A pass, forward and backward, that ranks compute together. All of them have its inputs and parameters. Each computes
// some heads of every layer and some columns of every product, and they give each other the rest; what is left is done
// by all alike. So every number is summed on one rank, in the order of one process, and has its bits. On the CPU.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/ranks.h"
#include "ops/call.h"

namespace polyhead::ops {

// [first, last) of columns, rows or heads.
struct Some {
  std::int64_t first = 0, last = 0;
  bool none() const noexcept { return first == last; }
};

class SharedPass {
 public:
  explicit SharedPass(Ranks& ranks) : ranks_(ranks) {}

  int rank() const { return ranks_.rank(); }
  // What a rank computes of n columns of a product, rows of a weight's gradient, or kv heads: as even as whole ones
  // allow. There may be more ranks than kv heads.
  Some of(int rank, std::int64_t n) const { return {n * rank / ranks_.size(), n * (rank + 1) / ranks_.size()}; }
  Some own(std::int64_t n) const { return of(ranks_.rank(), n); }

  // Views of one tensor or more, of which each rank has filled in its own: now all are, on every rank.
  using Views = std::vector<TensorView>;
  void gather(const Call& call, const std::function<Views(int rank)>& views_of);
  void gather_columns(const Call& call, const TensorView& all);  // of(rank, columns) each

  // A backward pass leaves each rank with its rows of the gradients of weights alone: gathers the rows of these.
  void complete(Context& context, std::span<const TensorView> gradients);

 private:
  Ranks& ranks_;
  std::vector<std::byte> buffer_;  // those of rank 0, of rank 1 ...
};

}  // namespace polyhead::ops
