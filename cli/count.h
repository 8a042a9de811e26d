// How `polyhead count` shows its counts.
#pragma once

#include <vector>

#include "cli/arithmetic.h"
#include "cli/report.h"

namespace polyhead::cli {

Report overview(const std::vector<Count>& counts);  // one line per model
Report itemised(const Count& count);                // every part of one model

}  // namespace polyhead::cli
