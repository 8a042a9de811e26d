// --ranks: how ranks share training.
#pragma once

#include <string>

#include "cli/commands.h"
#include "train/rank_grid.h"

namespace polyhead::cli {

struct GridChoice {
  std::string words;

  Option option();
  // Ranks of a group that shares every pass. Failure (usage) if the words say nothing, or not so many ranks as there
  // are.
  int heads(int ranks) const;
};

}  // namespace polyhead::cli
