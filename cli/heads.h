// What `polyhead heads` reports.
#pragma once

#include <optional>

#include "cli/report.h"
#include "exam/examination.h"
#include "exam/subject.h"

namespace polyhead::cli {

// Which heads the table shows; JSON and CSV have all.
struct Selection {
  std::string sort = "head";        // or a column of numbers, the largest first
  std::string role = {};            // only heads that have this role; "none": those that have none
  std::optional<std::int64_t> top;  // how many
};
const std::vector<std::string>& sort_names();

// The heads that the selection's role admits, by their places, in the model's order. Failure (usage) for a role that
// was not tried.
std::vector<std::size_t> admitted(const Selection& selection, const std::vector<heads::HeadRoles>& heads);

struct Examined {
  std::string folder;
  std::int64_t samples;
  const exam::Subject& subject;
  const exam::Examination& found;
  bool damage = true, means = true;  // heads were knocked out, if not all; also with their means in their place
  bool gradient = true;              // the gradient was computed
  Selection selection = {};

  bool answers() const { return subject.model->config().kind != model::Kind::encoder; }
  bool has_gradient() const { return gradient && answers(); }
};

// With `all_roles` the text also has every score of every head, and CSV has only those.
Report heads_report(const Examined& examined, bool all_roles);

// "induction", "positional (offset -1)", with a question mark if it is borderline, or nothing if no role holds.
std::string role_text(const heads::HeadRoles& head);

}  // namespace polyhead::cli
