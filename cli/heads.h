// `polyhead heads`: what it says.
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
  bool damage = true, means = true;  // whether heads were taken out, and with their means in their places, too
  bool gradient = true;              // whether it was made

  bool answers() const { return subject.model->config().kind != model::Kind::encoder; }
  bool has_gradient() const { return gradient && answers(); }
};

// With `all_roles` the text goes on with every score of every head, and CSV is of those.
Report heads_report(const Examined& examined, bool all_roles);

// "induction", "positional (offset -1)", or nothing where no role holds.
std::string role_text(const heads::HeadRoles& head);

}  // namespace polyhead::cli
