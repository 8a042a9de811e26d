// Which heads of two models belong together.
#pragma once

#include "exam/observer.h"
#include "report/page.h"

namespace polyhead::exam {

// For two models of one shape, and for a model and what is left of it after pruning, in either order: tells every head
// of the smaller one, as the page has it, from which of the larger one it comes. Throws Error (input) for any other
// two, that is, unless both have the same kind and layers, and each head of the smaller one reads with the weights of
// one of the larger's, or with what training since has made of them.
class Origins {
 public:
  Origins(Context& context, const model::Transformer& first, const model::Transformer& second);

  // `which` of the two it is, 0 or 1.
  void tell(report::Model& model, std::size_t which) const;
  // Gates by what the heads are called in the larger model, as those of this one.
  GateList own(const GateList& gates, std::size_t which) const;

 private:
  std::size_t smaller_ = 0;
  model::Config small_{};
  std::vector<HeadId> of_;  // of its heads, in order; empty if both have the same
};

}  // namespace polyhead::exam
