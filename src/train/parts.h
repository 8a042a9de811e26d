// Gradients of a batch, summed over its parts in a tree whose shape depends on the number of parts alone: the same bits
// on any number of ranks.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "core/ranks.h"

namespace polyhead::train {

class PartSums {
 public:
  PartSums(Context& context, std::vector<autograd::Parameter*> parameters, std::int64_t parts, Ranks& ranks);

  // The parts that rank `rank` computes: [first, last).
  std::pair<std::int64_t, std::int64_t> parts_of(int rank) const;

  // compute(part) leaves the gradient of that part in `gradients` and returns its factor in the sum; it is called for
  // this rank's parts in order. The sum over all parts is then in `gradients`, on every rank.
  void sum(autograd::Gradients& gradients, const std::function<double(std::int64_t part)>& compute);

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;
  int owner(std::int64_t part) const;
  bool is_one_ranks(const Range& range) const { return owner(range.first) == owner(range.second - 1); }
  static std::int64_t middle(const Range& range) { return (range.first + range.second + 1) / 2; }

  Tensor computed(const Range& range);   // a sum of parts that are all ours
  void compute_own(const Range& range);  // the largest such sums
  int reduce(const Range& range);        // to the rank of its first part, which is returned
  Tensor taken();
  void add(Tensor& into, Tensor& more);
  Tensor packed(double factor);
  void unpack(const Tensor& all);

  Context& context_;
  std::vector<autograd::Parameter*> parameters_;
  std::int64_t parts_, count_ = 0;
  Ranks& ranks_;
  std::vector<Tensor> free_;      // [count] each
  std::map<Range, Tensor> sums_;  // those that this rank holds
  autograd::Gradients* gradients_ = nullptr;
  const std::function<double(std::int64_t)>* compute_ = nullptr;
};

}  // namespace polyhead::train
