#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/heads.h"
#include "heads/sinks.h"

namespace polyhead::cli {
namespace {

using heads::HeadRoles;
using heads::HeadSurvey;
using heads::RoleScore;

const std::vector<Column> kStatistics{
    {"entropy", "entropy", Style::decimal, 2},          {"normalised_entropy", "of largest", Style::percent, 8},
    {"first_weight", "on first", Style::decimal, 3},    {"self_weight", "on self", Style::decimal, 7},
    {"previous_weight", "previous", Style::decimal, 5}, {"distance", "distance", Style::decimal, 6},
    {"max_weight", "max weight", Style::decimal, 10}};

std::vector<Value> statistics_of(const HeadSurvey& head) {
  const auto by_rows = [&](Statistic which) { return head.mean(which, Statistic::rows); };
  return {by_rows(Statistic::entropy),
          head.mean(Statistic::normalised_entropy, Statistic::normalised_rows),
          by_rows(Statistic::first_weight),
          head.mean(Statistic::self_weight, Statistic::self_rows),
          head.mean(Statistic::previous_weight, Statistic::previous_rows),
          by_rows(Statistic::distance),
          by_rows(Statistic::max_weight)};
}

void append(std::vector<Column>& to, const std::vector<Column>& more) { to.insert(to.end(), more.begin(), more.end()); }
void append(std::vector<Value>& to, const std::vector<Value>& more) { to.insert(to.end(), more.begin(), more.end()); }

// Everything known about every head, as numbers.
Table data_of(const Examined& e) {
  const exam::Examination& found = e.found;
  Table table{.name = "heads", .columns = {{"head", "head"}, {"role", "role"}, {"role_note", "note"}}, .rows = {}};
  append(table.columns, {{"role_score", "score"}, {"role_threshold", "threshold"}, {"role_control", "control"}});
  append(table.columns, kStatistics);
  append(table.columns, {{"gradient", ""}, {"importance", ""}});
  append(table.columns, {{"damage_zero", ""}, {"damage_zero_low", ""}, {"damage_zero_high", ""}});
  append(table.columns, {{"damage_mean", ""}, {"damage_mean_low", ""}, {"damage_mean_high", ""}});
  append(table.columns, {{"accuracy_loss", ""}, {"logit", ""}, {"most_similar", ""}, {"agreement", ""}});
  for (std::size_t n = 0; n < found.roles.size(); ++n) {
    const RoleScore* role = found.roles[n].role();
    const HeadImportance& i = found.importance[n];
    std::vector<Value> row{to_string(i.id)};
    if (role == nullptr)
      row.resize(6);
    else
      append(row, {role->role, role->note, role->score, role->threshold, role->control});
    append(row, statistics_of(found.survey.heads[n]));
    const auto known = [&](bool is, const std::vector<double>& values) {
      for (const double value : values) row.push_back(is ? Value(value) : Value());
    };
    known(e.has_gradient(), {i.gradient, i.normalised});
    known(e.damage, {i.zero.mean, i.zero.low, i.zero.high});
    known(e.means, {i.mean.mean, i.mean.low, i.mean.high});
    known(e.damage && e.answers(), {i.accuracy_loss, i.logit.mean});
    append(row, {to_string(found.nearest[n].id), found.nearest[n].agreement});
    table.rows.push_back(std::move(row));
  }
  return table;
}

// "0.812 ± 0.034": Student's interval is as wide on either side.
std::string damage_text(const Estimate& damage) {
  return fmt::format("{} ± {}", text_of(Value(damage.mean), Style::decimal),
                     text_of(Value((damage.high - damage.low) / 2), Style::decimal));
}

// The same for people, with related numbers in one cell.
Table shown(const Examined& e) {
  const exam::Examination& found = e.found;
  Table table{.name = {}, .columns = {{"", "head"}, {"", "role"}, {"", "score", Style::decimal}}, .rows = {}};
  append(table.columns, kStatistics);
  if (e.has_gradient()) append(table.columns, {{"", "gradient", Style::decimal}});
  if (e.damage) {
    append(table.columns, {{"", "damage", Style::decimal}});
    if (e.means) append(table.columns, {{"", "as mean", Style::decimal, 9}});
    if (e.answers()) append(table.columns, {{"", "accuracy", Style::percent, 1}, {"", "logit", Style::decimal}});
  }
  append(table.columns, {{"", "most like", Style::words, 4}});
  for (std::size_t n = 0; n < found.roles.size(); ++n) {
    const RoleScore* role = found.roles[n].role();
    const HeadImportance& i = found.importance[n];
    std::vector<Value> row{to_string(i.id), role_text(found.roles[n]), role == nullptr ? Value() : Value(role->score)};
    append(row, statistics_of(found.survey.heads[n]));
    if (e.has_gradient()) append(row, {i.normalised});
    if (e.damage) {
      append(row, {damage_text(i.zero)});
      if (e.means) append(row, {i.mean.mean});
      if (e.answers()) append(row, {-i.accuracy_loss, i.logit.mean});
    }
    append(row, {fmt::format("{} ({:.0f} %)", to_string(found.nearest[n].id), 100 * found.nearest[n].agreement)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Every score of every head, with everything it is measured against.
Table roles_of(const exam::Examination& found) {
  Table table{.name = "roles",
              .columns = {{"head", "head"},
                          {"role", "role"},
                          {"score", "score", Style::decimal},
                          {"threshold", "threshold", Style::decimal, 1},
                          {"control", "control", Style::decimal},
                          {"untrained", "untrained", Style::decimal, 2},
                          {"holds", "holds"},
                          {"note", "note", Style::words, 3}},
              .rows = {}};
  for (const HeadRoles& head : found.roles) {
    for (const RoleScore& s : head.scores) {
      table.rows.push_back({to_string(head.id), s.role, s.score, s.threshold, s.control,
                            exam::highest(found.untrained, s.role), s.holds() ? "yes" : "no", s.note});
    }
  }
  return table;
}

// "averaging 7, none 1"
std::string census(const std::vector<HeadRoles>& heads) {
  std::map<std::string, int> counts;
  for (const HeadRoles& head : heads) ++counts[head.role() == nullptr ? "none" : head.role()->role];
  std::vector<std::string> parts;
  for (const auto& [role, count] : counts) parts.push_back(fmt::format("{} {}", role, count));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> notes_of(const Examined& e) {
  std::vector<std::string> notes;
  if (e.found.roles.empty()) notes.emplace_back("this model has no heads left");
  std::int64_t unclear = 0;
  for (const HeadImportance& head : e.found.importance) unclear += head.zero.low <= 0 && head.zero.high >= 0;
  if (e.damage && e.answers() && unclear > 0) {
    notes.push_back(fmt::format("{} of {} heads do damage that cannot be told from 0", unclear, e.found.roles.size()));
  }
  const bool averaging = std::any_of(e.found.roles.begin(), e.found.roles.end(), [](const HeadRoles& head) {
    return head.role() != nullptr && head.role()->role == "averaging";
  });
  if (!e.gradient && e.answers()) notes.emplace_back("no gradient was made: --gradient asks for it");
  if (averaging) notes.emplace_back("averaging is what heads do before training, too");
  if (e.subject.about == "repeat-fixed") {
    notes.emplace_back("this task repeats at one distance: the detectors use several, so that positions cannot help");
  }
  return notes;
}

// A sentence for every column shown that is not self-explanatory.
std::string explained(const Examined& e, const std::vector<std::string>& headings) {
  const std::pair<const char*, const char*> sentences[] = {
      {"damage",
       e.answers()
           ? "Damage: how much the loss rises without the head. "
           : "Damage: the cosine distance (1 - cos) between the embeddings of a window with and without the head. "},
      {"accuracy", "Accuracy: how much it changes without the head. "},
      {"logit", "Logit: what the head adds to that of the right answer. "},
      {"most like", "Most like: whose largest weights lie on the same keys. "}};
  std::string text;
  for (const auto& [heading, sentence] : sentences) {
    if (std::find(headings.begin(), headings.end(), heading) != headings.end()) text += sentence;
  }
  return text + "'polyhead heads --help' has every column.";
}

std::string text_of(const Examined& e, const std::vector<std::string>& notes) {
  const exam::Examination& found = e.found;
  std::string text = fmt::format("{}: {}", e.folder, e.subject.about);
  if (e.answers()) text += fmt::format(", accuracy {:.2f} %, loss {:.4f}", 100 * found.accuracy, found.loss);
  if (e.answers() && e.subject.task == nullptr) text += fmt::format(", perplexity {:.2f}", std::exp(found.loss));
  const Table table = shown(e);
  text += "\n\n" + text_of(table) + "\n";
  if (e.damage && e.has_gradient()) {
    const auto two_digits = [](double number) { return unsigned_zero(fmt::format("{:.2f}", number)); };
    text += "Rank correlation of gradient and damage " + two_digits(found.gradient_and_zero);
    if (e.means) text += ", with means in place of outputs " + two_digits(found.gradient_and_mean);
    text += "\n";
  }
  text +=
      fmt::format("Roles: {}\nUntrained model of the same shape: {}\n", census(found.roles), census(found.untrained));
  if (found.sinks) {
    text += fmt::format(
        "Sinks: {:.1f} % of heads, over windows of {} tokens, give the first more than {} of their weight\n",
        100 * *found.sinks, heads::kSinkTokens, heads::kSinkEpsilon);
  }
  for (const std::string& note : notes) text += fmt::format("Note: {}\n", note);
  return text + "\n" + wrapped(explained(e, headings_of(table)), 0) + "\n";
}

}  // namespace

std::string role_text(const HeadRoles& head) {
  const RoleScore* role = head.role();
  if (role == nullptr) return {};
  return role->note.empty() ? role->role : fmt::format("{} ({})", role->role, role->note);
}

Report heads_report(const Examined& e, bool all_roles) {
  const exam::Examination& found = e.found;
  const std::vector<std::string> notes = notes_of(e);
  const Table data = data_of(e), roles = roles_of(found);
  const auto if_known = [](bool known, double value) { return known ? Value(value) : Value(); };
  const auto if_means = [&](double value, bool gradient) {
    return if_known(e.means && e.answers() && (!gradient || e.gradient), value);
  };
  return {
      .command = "heads",
      .text = text_of(e, notes) + (all_roles ? "\n" + text_of(roles) : ""),
      .fields = {{"model", e.folder},
                 {e.subject.task != nullptr ? "task" : "text", e.subject.about},
                 {"samples", e.samples},
                 {"accuracy", if_known(e.answers(), found.accuracy)},
                 {"loss", if_known(e.answers(), found.loss)},
                 {"rank_correlation_gradient_zero", if_known(e.damage && e.has_gradient(), found.gradient_and_zero)},
                 {"rank_correlation_gradient_mean", if_means(found.gradient_and_mean, true)},
                 {"rank_correlation_zero_mean", if_means(found.zero_and_mean, false)},
                 {"roles_found", census(found.roles)},
                 {"roles_untrained", census(found.untrained)},
                 {"sinks", found.sinks ? Value(*found.sinks) : Value()},
                 {"notes", notes}},
      .tables = {data, roles},
      .csv = all_roles ? roles : data};
}

}  // namespace polyhead::cli
