// What `polyhead compare` has found.
#pragma once

#include "cli/report.h"
#include "heads/roles.h"

namespace polyhead::cli {

// What is known about the heads of one model.
struct Side {
  heads::Survey survey;
  std::vector<heads::HeadRoles> roles;

  double mean(std::size_t n, Statistic which) const { return survey.heads[n].mean(which, Statistic::rows); }
};

struct Compared {
  std::string model, other, about;
  const Side &a, &b;
};

Report compare_report(const Compared& c);

}  // namespace polyhead::cli
