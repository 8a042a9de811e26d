#include <fmt/format.h>

#include <algorithm>

#include "cli/compare.h"
#include "cli/heads.h"

namespace polyhead::cli {

Report compare_report(const Compared& c) {
  const Side &a = c.a, &b = c.b;
  Table table{.name = "heads",
              .columns = {{"head", "head"},
                          {"agreement", "same key", Style::percent},
                          {"role_a", "role"},
                          {"role_b", "role in B"},
                          {"entropy_a", "entropy", Style::decimal, 1},
                          {"entropy_b", "in B", Style::decimal, 1},
                          {"distance_a", "distance", Style::decimal, 2},
                          {"distance_b", "in B", Style::decimal, 2}},
              .rows = {}};
  double sum = 0;
  std::int64_t changed = 0;
  for (std::size_t n = 0; n < a.roles.size(); ++n) {
    const double same = heads::agreement(a.survey.heads[n], b.survey.heads[n]);
    const std::string role_a = role_text(a.roles[n]), role_b = role_text(b.roles[n]);
    sum += same;
    changed += role_a != role_b;
    table.rows.push_back({to_string(a.roles[n].id), same, role_a, role_b, a.mean(n, Statistic::entropy),
                          b.mean(n, Statistic::entropy), a.mean(n, Statistic::distance),
                          b.mean(n, Statistic::distance)});
  }
  const double mean = sum / static_cast<double>(std::max<std::size_t>(a.roles.size(), 1));
  std::string text = fmt::format("{} (A) and {} (B): {}\n\n", c.model, c.other, c.about) + text_of(table);
  text += "\n" +
          wrapped(fmt::format("Same key: rows whose largest weight lies on the same key in both; mean {:.1f} %. "
                              "{} of {} heads have another role in B.",
                              100 * mean, changed, a.roles.size()),
                  0) +
          "\n";
  return {
      .command = "compare",
      .text = text,
      .fields = {{"a", c.model}, {"b", c.other}, {"about", c.about}, {"agreement", mean}, {"roles_changed", changed}},
      .tables = {table},
      .csv = table};
}

}  // namespace polyhead::cli
