// What `polyhead train` reports when it is done.
#pragma once

#include "cli/report.h"
#include "train/run.h"

namespace polyhead::cli {

Report report_of(const train::Run& run, const train::Outcome& outcome, double steps_per_second);

}  // namespace polyhead::cli
