#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "cli/heads.h"
#include "core/suggest.h"
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

constexpr std::ptrdiff_t kSortedFirst = 6;  // names before those of the statistics

// Roles are typed with blanks or with dashes.
std::string with_blanks(std::string role) {
  std::replace(role.begin(), role.end(), '-', ' ');
  return role;
}

// Everything known about every head, as numbers.
Table data_of(const Examined& e) {
  const exam::Examination& found = e.found;
  Table table{.name = "heads", .columns = {{"head", "head"}, {"role", "role"}, {"role_note", "note"}}, .rows = {}};
  append(table.columns, {{"role_score", "score"}, {"role_threshold", "threshold"}, {"role_control", "control"}});
  append(table.columns, {{"role_borderline", "borderline"}});
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
      row.resize(7);
    else
      append(row,
             {role->role, role->note, role->score, role->threshold, role->control, role->borderline() ? "yes" : "no"});
    append(row, statistics_of(found.survey.heads[n]));
    const auto known = [&](bool is, const std::vector<double>& values) {
      for (const double value : values) row.push_back(is ? Value(value) : Value());
    };
    known(e.has_gradient(), {i.gradient, i.normalised});
    const bool damage = e.damage && heads::has_damage(i);
    known(damage, {i.zero.mean, i.zero.low, i.zero.high});
    known(damage && e.means, {i.mean.mean, i.mean.low, i.mean.high});
    known(damage && e.answers(), {i.accuracy_loss, i.logit.mean});
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

// What the head is sorted by; -inf if it is not known.
double sort_value(const Examined& e, std::size_t n) {
  const HeadImportance& i = e.found.importance[n];
  const RoleScore* role = e.found.roles[n].role();
  const bool damage = e.damage && heads::has_damage(i);
  const std::string& by = e.selection.sort;
  constexpr double kUnknown = -std::numeric_limits<double>::infinity();
  if (by == "score") return role == nullptr ? kUnknown : role->score;
  if (by == "gradient") return i.normalised;
  if (by == "damage") return damage ? i.zero.mean : kUnknown;
  if (by == "accuracy") return damage ? i.accuracy_loss : kUnknown;
  if (by == "logit") return damage ? i.logit.mean : kUnknown;
  const auto at = std::find(sort_names().begin() + kSortedFirst, sort_names().end(), by);
  if (at == sort_names().end()) return 0;  // as the model has them
  return std::get<double>(
      statistics_of(e.found.survey.heads[n])[static_cast<std::size_t>(at - sort_names().begin() - kSortedFirst)]);
}

// The heads that the table shows, by their places.
std::vector<std::size_t> selected(const Examined& e) {
  std::vector<std::size_t> places = admitted(e.selection, e.found.roles);
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return sort_value(e, a) > sort_value(e, b); });
  return places;
}

// The same for people, with related numbers in one cell.
Table shown(const Examined& e, const std::vector<std::size_t>& places) {
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
  for (const std::size_t n : places) {
    const RoleScore* role = found.roles[n].role();
    const HeadImportance& i = found.importance[n];
    std::vector<Value> row{to_string(i.id), role_text(found.roles[n]), role == nullptr ? Value() : Value(role->score)};
    append(row, statistics_of(found.survey.heads[n]));
    if (e.has_gradient()) append(row, {i.normalised});
    if (e.damage) {
      const bool known = heads::has_damage(i);
      const auto if_known = [&](double value) { return known ? Value(value) : Value(); };
      append(row, {known ? Value(damage_text(i.zero)) : Value()});
      if (e.means) append(row, {if_known(i.mean.mean)});
      if (e.answers()) append(row, {if_known(-i.accuracy_loss), if_known(i.logit.mean)});
    }
    append(row, {fmt::format("{} ({:.0f} %)", to_string(found.nearest[n].id), 100 * found.nearest[n].agreement)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

const char* holding(const RoleScore& score) {
  if (score.number_only) return "a number";  // from text to text another one
  if (score.by_chance) return "no";
  return score.borderline() ? "borderline" : score.holds() ? "yes" : "no";
}

// Every score of every head, with everything it is measured against.
Table roles_of(const exam::Examination& found) {
  Table table{.name = "roles",
              .columns = {{"head", "head"},
                          {"role", "role"},
                          {"score", "score", Style::decimal},
                          {"score_low", "from", Style::decimal, 1},
                          {"score_high", "to", Style::decimal, 1},
                          {"threshold", "threshold", Style::decimal, 1},
                          {"control", "control", Style::decimal},
                          {"untrained", "untrained", Style::decimal, 2},
                          {"holds", "holds"},
                          {"note", "note", Style::words, 3}},
              .rows = {}};
  for (const HeadRoles& head : found.roles) {
    for (const RoleScore& s : head.scores) {
      const auto end = [&](double heads::Interval::*which) {
        return s.interval ? Value((*s.interval).*which) : Value();
      };
      table.rows.push_back({to_string(head.id), s.role, s.score, end(&heads::Interval::low),
                            end(&heads::Interval::high), s.threshold, s.control, exam::highest(found.untrained, s.role),
                            holding(s), s.note});
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

bool is_borderline(const HeadRoles& head) { return head.role() != nullptr && head.role()->borderline(); }

// The heads that have each role, the highest scores first.
std::string best_text(const std::vector<HeadRoles>& heads) {
  constexpr std::size_t kBest = 3;
  std::map<std::string, std::vector<const HeadRoles*>> by_role;
  std::size_t width = 0;
  for (const HeadRoles& head : heads) {
    if (head.role() == nullptr) continue;
    by_role[head.role()->role].push_back(&head);
    width = std::max(width, head.role()->role.size());
  }
  std::string text;
  for (auto& [role, of_role] : by_role) {
    std::stable_sort(of_role.begin(), of_role.end(),
                     [](const auto* a, const auto* b) { return a->role()->score > b->role()->score; });
    std::vector<std::string> best;
    for (std::size_t n = 0; n < std::min(kBest, of_role.size()); ++n) {
      best.push_back(fmt::format("{} {:.2f}{}", to_string(of_role[n]->id), of_role[n]->role()->score,
                                 is_borderline(*of_role[n]) ? "?" : ""));
    }
    const std::size_t more = of_role.size() - best.size();
    text += fmt::format("  {:<{}}  {}{}\n", role, width, fmt::join(best, ", "),
                        more == 0 ? "" : fmt::format(" and {} more", more));
  }
  return text;
}

// Those whose damage was measured.
std::vector<HeadImportance> measured(const exam::Examination& found) {
  std::vector<HeadImportance> heads;
  std::copy_if(found.importance.begin(), found.importance.end(), std::back_inserter(heads), heads::has_damage);
  return heads;
}

std::vector<std::string> notes_of(const Examined& e) {
  std::vector<std::string> notes;
  if (e.found.roles.empty()) notes.emplace_back("this model has no heads left");
  const std::int64_t heads = std::ssize(e.found.importance), known = e.damage ? std::ssize(measured(e.found)) : 0;
  const char* order = e.has_gradient() ? "those with the largest gradients first" : "layer by layer";
  if (!e.damage && heads > 0) {
    notes.push_back(
        fmt::format("damage was not measured: --damage takes out every head in turn, --damage 30s as many "
                    "as there is time for, {}",
                    order));
  } else if (known < heads) {
    notes.push_back(fmt::format("damage was measured of {} of {} heads, {}", known, heads, order));
  }
  if (e.damage && e.answers()) {
    const std::vector<bool> clear = heads::damage_findings(measured(e.found), e.samples);
    const auto unclear = std::count(clear.begin(), clear.end(), false);
    if (unclear > 0) {
      notes.push_back(fmt::format("{} of {} heads do damage that cannot be told from 0, seeing how many were tried",
                                  unclear, clear.size()));
    }
  }
  if (std::any_of(e.found.roles.begin(), e.found.roles.end(), is_borderline)) {
    notes.emplace_back("a role with a ? is borderline: the 95 % interval of its score spans what the role takes");
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

// If no head has the role that was asked for: who comes closest.
std::string nobody_text(const Examined& e) {
  const HeadRoles* best = nullptr;
  const auto score = [&](const HeadRoles& head) { return head.score_in(with_blanks(e.selection.role)); };
  for (const HeadRoles& head : e.found.roles) {
    if (score(head) != nullptr && (best == nullptr || score(head)->score > score(*best)->score)) best = &head;
  }
  if (best == nullptr) return "Every head has a role.\n";
  const RoleScore& most = *score(*best);
  if (most.number_only) return "This is a number on texts, not a role; --all-roles shows it.\n";
  const char* how = "";
  if (most.score >= most.limit()) how = most.by_chance ? " by more than chance" : " as its first";
  return fmt::format(
      "No head has this role{}. The highest score is {:.3f}, of head {}; it takes {:.3f}, and {:.3f} more than the "
      "control, {:.3f}.\n",
      how, most.score, to_string(best->id), most.threshold, heads::kMargin, most.control);
}

std::string table_text(const Examined& e, Table& table) {
  std::vector<std::size_t> places = selected(e);
  const std::size_t all = places.size();
  if (all == 0 && !e.found.roles.empty()) return nobody_text(e);
  if (e.selection.top) places.resize(std::min(all, static_cast<std::size_t>(*e.selection.top)));
  table = shown(e, places);
  return text_of(table) + (places.size() < all ? fmt::format("and {} more heads (--top)\n", all - places.size()) : "");
}

// "Rank correlation of gradient and damage 0.43", if there is anything to correlate.
std::string correlation_text(const Examined& e) {
  constexpr std::int64_t kFewest = 3;
  const std::int64_t known = std::ssize(measured(e.found));
  if (!e.damage || !e.has_gradient() || known < kFewest) return {};
  const auto two_digits = [](double number) { return unsigned_zero(fmt::format("{:.2f}", number)); };
  std::string text = "Rank correlation of gradient and damage " + two_digits(e.found.gradient_and_zero);
  if (e.means) text += ", with means in place of outputs " + two_digits(e.found.gradient_and_mean);
  return text + (known < std::ssize(e.found.importance) ? fmt::format(", of {} heads\n", known) : "\n");
}

std::string text_of(const Examined& e, const std::vector<std::string>& notes) {
  const exam::Examination& found = e.found;
  std::string text = fmt::format("{}: {}", e.folder, e.subject.about);
  if (e.answers()) text += fmt::format(", accuracy {:.2f} %, loss {:.4f}", 100 * found.accuracy, found.loss);
  if (e.answers() && e.subject.task == nullptr) text += fmt::format(", perplexity {:.2f}", std::exp(found.loss));
  Table table;
  text += "\n\n" + table_text(e, table) + "\n" + correlation_text(e);
  if (found.sinks) {
    text += fmt::format(
        "Sinks: {:.1f} % [{:.1f}, {:.1f}] of heads, over windows of {} tokens, give the first more than {} of their "
        "weight\n",
        100 * found.sinks->mean, 100 * found.sinks->low, 100 * found.sinks->high, heads::kSinkTokens,
        heads::kSinkEpsilon);
  }
  for (const std::string& note : notes) text += fmt::format("Note: {}\n", note);
  text += "\n" + wrapped(explained(e, headings_of(table)), 0) + "\n\n";
  return text + fmt::format("Untrained model of the same shape: {}\nRoles: {}\n{}", census(found.untrained),
                            census(found.roles), best_text(found.roles));
}

}  // namespace

std::string role_text(const HeadRoles& head) {
  const RoleScore* role = head.role();
  if (role == nullptr) return {};
  const std::string text = role->note.empty() ? role->role : fmt::format("{} ({})", role->role, role->note);
  return role->borderline() ? text + "?" : text;
}

const std::vector<std::string>& sort_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"head", "score", "gradient", "damage", "accuracy", "logit"};
    for (const Column& column : kStatistics) {
      all.push_back(column.heading);
      std::replace(all.back().begin(), all.back().end(), ' ', '-');
    }
    return all;
  }();
  return names;
}

std::vector<std::size_t> admitted(const Selection& selection, const std::vector<HeadRoles>& heads) {
  const std::string wanted = with_blanks(selection.role);
  std::set<std::string> known{"none"};
  std::vector<std::size_t> places;
  for (std::size_t n = 0; n < heads.size(); ++n) {
    for (const RoleScore& score : heads[n].scores) known.insert(with_blanks(score.role));
    const std::string role = heads[n].role() == nullptr ? "none" : with_blanks(heads[n].role()->role);
    if (wanted.empty() || wanted == role) places.push_back(n);
  }
  if (wanted.empty() || heads.empty() || known.contains(wanted)) return places;
  throw Failure(Exit::usage, fmt::format("--role: expected one of {}, found '{}'{}", fmt::join(known, ", "),
                                         selection.role, did_you_mean(wanted, {known.begin(), known.end()})));
}

Report heads_report(const Examined& e, bool all_roles) {
  const exam::Examination& found = e.found;
  const std::vector<std::string> notes = notes_of(e);
  const Table data = data_of(e), roles = roles_of(found);
  const auto if_known = [](bool known, double value) { return known && std::isfinite(value) ? Value(value) : Value(); };
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
                 {"damage_measured", e.damage ? std::ssize(measured(found)) : 0},
                 {"sinks", found.sinks ? Value(found.sinks->mean) : Value()},
                 {"sinks_low", found.sinks ? Value(found.sinks->low) : Value()},
                 {"sinks_high", found.sinks ? Value(found.sinks->high) : Value()},
                 {"notes", notes}},
      .tables = {data, roles},
      .csv = all_roles ? roles : data};
}

}  // namespace polyhead::cli
