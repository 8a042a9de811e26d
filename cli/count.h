// How `polyhead count` shows its counts.
#pragma once

#include <vector>

#include "cli/arithmetic.h"
#include "cli/report.h"

namespace polyhead::cli {

Report overview(const std::vector<Count>& counts);  // one line a model
Report itemised(const Count& count);                // every part of one

}  // namespace polyhead::cli
