// `polyhead prune`: what it says.
#pragma once

#include <optional>

#include "cli/report.h"
#include "exam/cut.h"
#include "heads/roles.h"

namespace polyhead::cli {

// What becomes of the model when heads go in different orders, to the end.
struct Orders {
  std::vector<std::pair<std::string, PruneCurve>> ranked;  // by name
  std::vector<PruneCurve> random;
};

struct Pruned {
  std::string folder, out, order;  // no `out`: nothing is written
  double budget = 0;               // in points
  bool answers = true;             // an encoder gives none: it is judged by what its embedding turns by
  bool mean = false;
  std::int64_t fine_tuned = 0;  // steps
  PruneCurve curve{};
  std::vector<heads::HeadRoles> roles{};  // of the whole model
  std::vector<HeadId> left{};             // by their names in the whole model
  std::vector<heads::HeadRoles> roles_left{};
  exam::BeforeAndAfter facts{};
  std::optional<Orders> orders{};
  std::string missing{};  // of what is written, in words
};

Report prune_report(const Pruned& pruned);

}  // namespace polyhead::cli
