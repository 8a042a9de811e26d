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

// Which parts are added to which, and who has them.
class PartTree {
 public:
  using Range = std::pair<std::int64_t, std::int64_t>;  // parts [first, last)

  PartTree(std::int64_t parts, std::int64_t ranks) : parts_(parts), ranks_(ranks) {}

  Range all() const { return {0, parts_}; }
  Range parts_of(std::int64_t rank) const { return {parts_ * rank / ranks_, parts_ * (rank + 1) / ranks_}; }
  std::int64_t owner(std::int64_t part) const { return (ranks_ * (part + 1) - 1) / parts_; }
  bool is_one_ranks(const Range& range) const { return owner(range.first) == owner(range.second - 1); }
  static Range left(const Range& range) { return {range.first, middle(range)}; }
  static Range right(const Range& range) { return {middle(range), range.second}; }

 private:
  static std::int64_t middle(const Range& range) { return (range.first + range.second + 1) / 2; }

  std::int64_t parts_, ranks_;
};

class PartSums {
 public:
  PartSums(Context& context, std::vector<autograd::Parameter*> parameters, std::int64_t parts, Ranks& ranks);

  // compute(part) leaves the gradient of that part in `gradients` and returns its factor in the sum; it is called for
  // this rank's parts in order. The sum over all parts is then in `gradients`, on every rank.
  void sum(autograd::Gradients& gradients, const std::function<double(std::int64_t part)>& compute);

 private:
  using Range = PartTree::Range;

  Tensor computed(const Range& range);   // a sum of parts that are all ours
  void compute_own(const Range& range);  // the largest such sums
  int reduce(const Range& range);        // to the rank of its first part, which is returned
  Tensor taken();
  void add(Tensor& into, Tensor& more);
  Tensor packed(double factor);
  void add_packed(Tensor& into, double factor);
  void unpack(const Tensor& all);

  Context& context_;
  std::vector<autograd::Parameter*> parameters_;
  PartTree tree_;
  std::int64_t count_ = 0;
  Ranks& ranks_;
  std::vector<Tensor> free_;      // [count] each
  Tensor block_;                  // room for some numbers
  std::map<Range, Tensor> sums_;  // those that this rank holds
  autograd::Gradients* gradients_ = nullptr;
  const std::function<double(std::int64_t)>* compute_ = nullptr;
};

}  // namespace polyhead::train
