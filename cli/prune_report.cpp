#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/heads.h"
#include "cli/prune.h"

namespace polyhead::cli {
namespace {

// Columns, and their cells: loss and accuracy or, for an encoder, the cosine distance of its embeddings.
std::vector<Column> quality_columns(bool answers) {
  if (!answers) return {{"cosine_distance", "1 - cos", Style::decimal}};
  return {{"loss", "loss", Style::decimal}, {"accuracy", "accuracy", Style::percent}};
}
std::vector<Value> quality(bool answers, double loss, double accuracy) {
  return answers ? std::vector<Value>{loss, accuracy} : std::vector<Value>{loss};
}

void append(auto& to, const auto& more) { to.insert(to.end(), more.begin(), more.end()); }

Table steps_of(const Pruned& p) {
  Table table{.name = "steps",
              .columns = {{"removed", "removed", Style::count}, {"head", "head"}, {"role", "role"}},
              .rows = {}};
  append(table.columns, quality_columns(p.answers));
  table.columns.push_back({"within_budget", "within budget", Style::words, 1});
  const auto add = [&](std::size_t removed, const std::string& head, const std::string& role, const auto& score) {
    std::vector<Value> row{static_cast<std::int64_t>(removed), head, role};
    append(row, quality(p.answers, score.loss, score.accuracy));
    row.emplace_back(removed <= p.curve.within_budget ? "yes" : "no");
    table.rows.push_back(std::move(row));
  };
  add(0, "", "", p.curve);
  for (std::size_t n = 0; n < p.curve.steps.size(); ++n) {
    const PruneStep& step = p.curve.steps[n];
    const auto head = std::find_if(p.roles.begin(), p.roles.end(), [&](const auto& h) { return h.id == step.removed; });
    add(n + 1, to_string(step.removed), role_text(*head), step);
  }
  return table;
}

Table survivors_of(const Pruned& p) {
  Table table{.name = "survivors",
              .columns = {{"head", "head"}, {"was", "was"}, {"role", "role"}, {"score", "score", Style::decimal}},
              .rows = {}};
  for (std::size_t n = 0; n < p.left.size(); ++n) {
    const heads::RoleScore* role = p.roles_left[n].role();
    table.rows.push_back({to_string(p.roles_left[n].id), to_string(p.left[n]), role_text(p.roles_left[n]),
                          role == nullptr ? Value() : Value(role->score)});
  }
  return table;
}

Table models_of(const Pruned& p) {
  Table table{.name = "models",
              .columns = {{"model", ""},
                          {"heads", "heads", Style::count},
                          {"parameters", "parameters", Style::count},
                          {"bytes", "bytes", Style::count, 1},
                          {"seconds_batch_1", "", Style::seconds},
                          {"seconds_batch_16", "", Style::seconds},
                          {"decode_seconds_batch_1", "", Style::seconds},
                          {"decode_seconds_batch_16", "", Style::seconds}},
              .rows = {}};
  append(table.columns, quality_columns(p.answers));
  const auto add = [&](const char* name, const exam::Facts& f) {
    const auto if_any = [](double seconds) { return seconds > 0 ? Value(seconds) : Value(); };
    std::vector<Value> row{name,
                           f.heads,
                           f.parameters,
                           f.bytes,
                           f.seconds_of_one,
                           f.seconds_of_16,
                           if_any(f.step_of_one),
                           if_any(f.step_of_16)};
    append(row, quality(p.answers, f.loss, f.accuracy));
    table.rows.push_back(std::move(row));
  };
  add("before", p.facts.before);
  add("after", p.facts.after);
  return table;
}

std::string change(double before, double after) {
  return fmt::format("{:+.1f} %", before > 0 ? 100 * (after / before - 1) : 0);
}

// For people: each number before and after, and its change.
std::string sizes_text(const Pruned& p) {
  const exam::Facts &a = p.facts.before, &b = p.facts.after;
  const auto share = [](std::int64_t before, std::int64_t after) {
    return change(static_cast<double>(before), static_cast<double>(after));
  };
  Table table = models_of(p);
  std::vector<Value> row{"change", share(a.heads, b.heads), share(a.parameters, b.parameters), share(a.bytes, b.bytes)};
  row.resize(8);
  row.emplace_back(fmt::format("{:+.3f}", b.loss - a.loss));
  if (p.answers) row.emplace_back(fmt::format("{:+.2f} points", 100 * (b.accuracy - a.accuracy)));
  table.rows.push_back(std::move(row));
  std::vector<std::string> keys{"model", "heads", "parameters", "bytes"};
  for (const Column& column : quality_columns(p.answers)) keys.push_back(column.key);
  return text_of(table, keys);
}

std::string times_text(const Pruned& p) {
  const exam::Facts &a = p.facts.before, &b = p.facts.after;
  Table table{.name = {},
              .columns = {{"", "time"},
                          {"", "before", Style::seconds},
                          {"", "after", Style::seconds},
                          {"", "change", Style::percent}},
              .rows = {}};
  bool all_tell = true;
  const auto add = [&](const char* what, double before, double after, const exam::TimeRatio& ratio) {
    if (before <= 0) return;
    table.rows.push_back({what, before, after, ratio.tells() ? change(before, after) : "none told"});
    all_tell = all_tell && ratio.tells();
  };
  add("prefill, batch 1", a.seconds_of_one, b.seconds_of_one, p.facts.of_one);
  add("prefill, batch 16", a.seconds_of_16, b.seconds_of_16, p.facts.of_16);
  add("decode, batch 1", a.step_of_one, b.step_of_one, p.facts.step_of_one);
  add("decode, batch 16", a.step_of_16, b.step_of_16, p.facts.step_of_16);
  return text_of(table) + (all_tell ? "" : "None told: the ratios of repeats in turn lie on either side of 1.\n");
}

// After each removal the accuracies and losses of every order, or an encoder's distances; the first row is the whole
// model.
Table orders_of(const Pruned& p) {
  const Orders& orders = *p.orders;
  Table table{.name = "orders", .columns = {{"removed", "removed", Style::count}}, .rows = {}};
  const auto add_columns = [&](const std::string& suffix, Style style) {
    for (const auto& [name, curve] : orders.ranked) {
      std::string key = name + suffix;
      std::replace(key.begin(), key.end(), '-', '_');
      table.columns.push_back({key, name, style});
    }
    append(table.columns, std::vector<Column>{{"random" + suffix, "random, mean", style},
                                              {"random" + suffix + "_low", "lowest", style, 1},
                                              {"random" + suffix + "_high", "highest", style, 1}});
  };
  if (p.answers) add_columns("", Style::percent);
  add_columns(p.answers ? "_loss" : "_cosine_distance", Style::decimal);
  for (std::size_t n = 0; n <= orders.random.front().steps.size(); ++n) {
    std::vector<Value> row{static_cast<std::int64_t>(n)};
    const auto add = [&](double PruneCurve::*of_whole, double PruneStep::*of_step) {
      const auto at = [&](const PruneCurve& curve) { return n == 0 ? curve.*of_whole : curve.steps[n - 1].*of_step; };
      for (const auto& [name, curve] : orders.ranked) row.emplace_back(at(curve));
      std::vector<double> random;
      for (const PruneCurve& curve : orders.random) random.push_back(at(curve));
      const auto [low, high] = std::minmax_element(random.begin(), random.end());
      row.emplace_back(std::accumulate(random.begin(), random.end(), 0.0) / static_cast<double>(random.size()));
      append(row, std::vector<Value>{*low, *high});
    };
    if (p.answers) add(&PruneCurve::accuracy, &PruneStep::accuracy);
    add(&PruneCurve::loss, &PruneStep::loss);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// For people: only the accuracies, or the distances of an encoder.
std::string orders_text(const Pruned& p, const Table& table) {
  std::vector<std::string> keys;
  for (std::size_t n = 0; n < p.orders->ranked.size() + 4; ++n) keys.push_back(table.columns[n].key);
  return std::string(p.answers ? "Accuracy" : "1 - cos") + " by order\n" + text_of(table, keys);
}

// What a reader might otherwise overlook.
std::vector<std::string> notes_of(const Pruned& p) {
  std::vector<std::string> notes;
  const exam::Facts &a = p.facts.before, &b = p.facts.after;
  const double lost = 100 * (p.answers ? a.accuracy - b.accuracy : b.loss - a.loss);
  constexpr double kRounding = 1e-9;
  if (p.curve.within_budget > 0 && lost > p.budget + kRounding) {
    const std::string of = p.answers ? fmt::format("{:.2f} points of accuracy", lost)
                                     : fmt::format("a cosine distance of {:.4f}", lost / 100);
    notes.push_back(fmt::format("on sequences that neither ranked nor judged this costs {}: more than the budget", of));
  }
  if (p.bytes_written > p.bytes_read) {
    notes.push_back(
        fmt::format("the files of weights grew, from {} to {} bytes: they hold other types of numbers, or "
                    "removed heads as zeros",
                    text_of(Value(p.bytes_read), Style::count), text_of(Value(p.bytes_written), Style::count)));
  }
  if (!p.missing.empty()) notes.push_back(p.missing);
  return notes;
}

std::string outcome_of(const Pruned& p) {
  const std::size_t all = p.roles.size(), gone = p.curve.within_budget;
  std::string text =
      gone == 0 ? fmt::format("No head of {} can go", all) : fmt::format("{} of {} heads can go", gone, all);
  text += p.answers ? fmt::format(" within {} point{} of accuracy", p.budget, p.budget == 1 ? "" : "s")
                    : fmt::format(" while the embedding stays within a cosine distance of {}", p.budget / 100);
  if (p.mean) text += ", leaving their means behind";
  if (p.fine_tuned > 0) text += fmt::format("; then fine-tuned for {} steps", p.fine_tuned);
  text += p.out.empty() ? "; nothing was written\n" : fmt::format("; written to {}\n", p.out);
  for (const std::string& note : notes_of(p)) text += fmt::format("Note: {}\n", note);
  return text;
}

}  // namespace

Report prune_report(const Pruned& p) {
  const Table steps = steps_of(p), survivors = survivors_of(p);
  std::string text = fmt::format("{}: heads go by the order {}\n\n", p.folder, p.order) + text_of(steps);
  if (!p.left.empty()) text += "\nWho is left\n" + text_of(survivors);
  text += "\nOn sequences that neither ranked nor judged\n" + sizes_text(p) + "\n" + times_text(p);
  std::vector<Table> tables{steps, survivors, models_of(p)};
  if (p.orders) {
    tables.push_back(orders_of(p));
    text += "\n" + orders_text(p, tables.back());
  }
  return {.command = "prune",
          .text = text + "\n" + outcome_of(p),
          .fields = {{"model", p.folder},
                     {"out", p.out.empty() ? Value() : Value(p.out)},
                     {"order", p.order},
                     {"budget_points", p.budget},
                     {"mean", p.mean},
                     {"fine_tune", p.fine_tuned},
                     {"heads_removed", static_cast<std::int64_t>(p.curve.within_budget)},
                     {"bytes_read", p.bytes_written > 0 ? Value(p.bytes_read) : Value()},
                     {"bytes_written", p.bytes_written > 0 ? Value(p.bytes_written) : Value()},
                     {"notes", notes_of(p)}},
          .tables = tables,
          .csv = p.orders ? tables.back() : steps};
}

Report stopped_report(const Stopped& s) {
  Table table{.name = "steps", .columns = {{"removed", "removed", Style::count}, {"head", "head"}}, .rows = {}};
  append(table.columns, quality_columns(s.answers));
  for (const PruneStep& step : s.steps) {
    std::vector<Value> row{std::ssize(table.rows) + 1, to_string(step.removed)};
    append(row, quality(s.answers, step.loss, step.accuracy));
    table.rows.push_back(std::move(row));
  }
  return {.command = "prune",
          .text = fmt::format("{}: heads that had gone by the order {}\n\n", s.folder, s.order) + text_of(table),
          .fields = {{"model", s.folder}, {"order", s.order}},
          .tables = {table},
          .csv = table};
}

}  // namespace polyhead::cli
