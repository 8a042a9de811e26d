#include "report/describe.h"

namespace polyhead::report {

Head describe(const heads::HeadRoles& roles, const heads::HeadSurvey* survey) {
  Head made;
  made.layer = static_cast<int>(roles.id.layer);
  made.head = static_cast<int>(roles.id.head);
  if (const heads::RoleScore* role = roles.role()) {
    made.role = role->role;
    made.score = role->score;
    made.borderline = role->borderline();
  }
  for (const heads::RoleScore& score : roles.scores) made.roles.emplace_back(score.role, score.score);
  if (survey == nullptr) return made;
  const auto add = [&](const char* name, Statistic value, Statistic count) {
    made.statistics.emplace_back(name, survey->mean(value, count));
  };
  add("entropy (nats)", Statistic::entropy, Statistic::rows);
  add("entropy, relative", Statistic::normalised_entropy, Statistic::normalised_rows);
  add("largest weight", Statistic::max_weight, Statistic::rows);
  add("on the first key", Statistic::first_weight, Statistic::rows);
  add("on itself", Statistic::self_weight, Statistic::self_rows);
  add("on the key before", Statistic::previous_weight, Statistic::previous_rows);
  add("mean distance", Statistic::distance, Statistic::rows);
  return made;
}

}  // namespace polyhead::report
