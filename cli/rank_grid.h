// --ranks: how ranks share training.
#pragma once

#include <string>

#include "cli/commands.h"
#include "cli/forecast.h"
#include "train/rank_grid.h"

namespace polyhead::cli {

struct GridChoice {
  std::string words;

  Option option();
  bool chooses() const { return words == "auto"; }
  // Ranks of a group that shares every pass. Failure (usage) if the words say nothing, or not so many ranks as there
  // are.
  int heads(int ranks) const;
};

// The same with the shortest step, by the forecasts of polyhead plan for ranks that nobody has measured; says so.
int best_heads(Workload work, int ranks, std::string& why);

}  // namespace polyhead::cli
