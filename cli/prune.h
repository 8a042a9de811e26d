// What `polyhead prune` reports.
#pragma once

#include <optional>

#include "cli/report.h"
#include "exam/cut.h"
#include "heads/roles.h"

namespace polyhead::cli {

// How the model does as heads go in different orders, down to none.
struct Orders {
  std::vector<std::pair<std::string, PruneCurve>> ranked;  // by name
  std::vector<PruneCurve> random;
};

struct Pruned {
  std::string folder, out, order;  // `out` empty: nothing is written
  double budget = 0;               // in points
  bool answers = true;             // an encoder gives none: it is judged by the cosine distance of its embeddings
  bool mean = false;
  std::int64_t fine_tuned = 0;  // steps
  PruneCurve curve{};
  std::vector<heads::HeadRoles> roles{};  // of the whole model
  std::vector<HeadId> left{};             // by their names in the whole model
  std::vector<heads::HeadRoles> roles_left{};
  exam::BeforeAndAfter facts{};
  std::optional<Orders> orders{};
  std::string missing{};  // what could not be written, in words
  // Of the files of weights that were read and written; 0 if nothing was written.
  std::int64_t bytes_read = 0, bytes_written = 0;
};

Report prune_report(const Pruned& pruned);

// Heads that had gone, in the order named, when a signal came.
struct Stopped {
  std::string folder, order;
  bool answers = true;
  std::vector<PruneStep> steps;
};
Report stopped_report(const Stopped& stopped);

}  // namespace polyhead::cli
