// What `polyhead heads` reports.
#pragma once

#include "cli/report.h"
#include "exam/examination.h"
#include "exam/subject.h"

namespace polyhead::cli {

struct Examined {
  std::string folder;
  std::int64_t samples;
  const exam::Subject& subject;
  const exam::Examination& found;
  bool damage = true, means = true;  // heads were knocked out; also with their means in their place
  bool gradient = true;              // the gradient was computed

  bool answers() const { return subject.model->config().kind != model::Kind::encoder; }
  bool has_gradient() const { return gradient && answers(); }
};

// With `all_roles` the text also has every score of every head, and CSV has only those.
Report heads_report(const Examined& examined, bool all_roles);

// "induction", "positional (offset -1)", or nothing if no role holds.
std::string role_text(const heads::HeadRoles& head);

}  // namespace polyhead::cli
