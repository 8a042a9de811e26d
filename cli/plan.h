// How `polyhead plan` shows its forecasts.
#pragma once

#include "cli/forecast.h"
#include "cli/report.h"

namespace polyhead::cli {

struct Plan {
  std::string name;
  Workload work;
  Rates rates;
  Link link;
  std::string rates_from, link_from;              // in words
  std::vector<Forecast> training, prefill, scan;  // for rising numbers of ranks; empty: polyhead has no such thing
};

Report plan_report(const Plan& plan);

}  // namespace polyhead::cli
