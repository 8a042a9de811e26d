// How ranks share training: in `data` groups, which share the parts of a batch; the ranks of a group, `heads` of them,
// share the pass over each part.
#pragma once

#include <memory>
#include <string>

#include "core/ranks.h"

namespace polyhead::train {

class RankGrid {
 public:
  // All of them share the parts of a batch.
  RankGrid(Ranks& all = alone()) : all_(&all) {}  // NOLINT(google-explicit-constructor): the usual case
  // Neighbours share a pass; `heads` divides their number. All ranks call it; the grid goes before they do.
  RankGrid(Ranks& all, int heads) : RankGrid(all) {
    if (heads == 1) return;
    heads_ = all.split(all.rank() / heads);
    data_ = all.split(all.rank() % heads);
  }

  Ranks& all() const { return *all_; }
  Ranks& heads() const { return heads_ != nullptr ? *heads_ : alone(); }
  Ranks& data() const { return heads_ != nullptr ? *data_ : *all_; }  // one rank of each group

 private:
  Ranks* all_;
  std::shared_ptr<Ranks> heads_, data_;
};

}  // namespace polyhead::train
