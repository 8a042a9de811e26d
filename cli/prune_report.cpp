#include <fmt/format.h>

#include <algorithm>

#include "cli/heads.h"
#include "cli/prune.h"

namespace polyhead::cli {
namespace {

Table steps_of(const Pruned& p) {
  Table table{.name = "steps",
              .columns = {{"removed", "removed", Style::count},
                          {"head", "head"},
                          {"role", "role"},
                          {"loss", "loss", Style::decimal},
                          {"accuracy", "accuracy", Style::percent},
                          {"within_budget", "within budget"}},
              .rows = {{std::int64_t{0}, "", "", p.curve.loss, p.curve.accuracy, "yes"}}};
  for (std::size_t n = 0; n < p.curve.steps.size(); ++n) {
    const PruneStep& step = p.curve.steps[n];
    const auto head = std::find_if(p.roles.begin(), p.roles.end(), [&](const auto& h) { return h.id == step.removed; });
    table.rows.push_back({static_cast<std::int64_t>(n) + 1, to_string(step.removed), role_text(*head), step.loss,
                          step.accuracy, n < p.curve.within_budget ? "yes" : "no"});
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

std::vector<Value> row_of(const char* name, const exam::Facts& f) {
  const auto if_any = [](double seconds) { return seconds > 0 ? Value(seconds) : Value(); };
  return {name,
          f.heads,
          f.parameters,
          f.bytes,
          f.seconds_of_one,
          f.seconds_of_16,
          if_any(f.step_of_one),
          if_any(f.step_of_16),
          f.accuracy,
          f.loss};
}

Table models_of(const Pruned& p) {
  return {.name = "models",
          .columns = {{"model", ""},
                      {"heads", "heads", Style::count},
                      {"parameters", "parameters", Style::count},
                      {"bytes", "bytes", Style::count},
                      {"seconds_batch_1", "", Style::seconds},
                      {"seconds_batch_16", "", Style::seconds},
                      {"decode_seconds_batch_1", "", Style::seconds},
                      {"decode_seconds_batch_16", "", Style::seconds},
                      {"accuracy", "accuracy", Style::percent},
                      {"loss", "loss", Style::decimal}},
          .rows = {row_of("before", p.facts.before), row_of("after", p.facts.after)}};
}

std::string change(double before, double after) {
  return fmt::format("{:+.1f} %", before > 0 ? 100 * (after / before - 1) : 0);
}

// For people: what became of each number.
std::string sizes_text(const Pruned& p) {
  const exam::Facts &a = p.facts.before, &b = p.facts.after;
  const auto share = [](std::int64_t before, std::int64_t after) {
    return change(static_cast<double>(before), static_cast<double>(after));
  };
  Table table = models_of(p);
  std::vector<Value> row{"change", share(a.heads, b.heads), share(a.parameters, b.parameters), share(a.bytes, b.bytes)};
  row.resize(8);
  row.emplace_back(fmt::format("{:+.2f} points", 100 * (b.accuracy - a.accuracy)));
  row.emplace_back(fmt::format("{:+.3f}", b.loss - a.loss));
  table.rows.push_back(std::move(row));
  return text_of(table, {"model", "heads", "parameters", "bytes", "accuracy", "loss"});
}

std::string times_text(const Pruned& p) {
  const exam::Facts &a = p.facts.before, &b = p.facts.after;
  Table table{.name = {},
              .columns = {{"", "time"},
                          {"", "before", Style::seconds},
                          {"", "after", Style::seconds},
                          {"", "change", Style::percent}},
              .rows = {}};
  const auto add = [&](const char* what, double before, double after) {
    if (before > 0) table.rows.push_back({what, before, after, change(before, after)});
  };
  add("prefill, batch 1", a.seconds_of_one, b.seconds_of_one);
  add("prefill, batch 16", a.seconds_of_16, b.seconds_of_16);
  add("decode, batch 1", a.step_of_one, b.step_of_one);
  add("decode, batch 16", a.step_of_16, b.step_of_16);
  return text_of(table);
}

// Accuracies after each removal; the first row is the whole model.
Table orders_of(const Orders& orders) {
  Table table{.name = "orders",
              .columns = {{"removed", "removed", Style::count},
                          {"iterative", "iterative", Style::percent},
                          {"one_shot", "one-shot", Style::percent},
                          {"damage", "damage", Style::percent},
                          {"random", "random, mean", Style::percent},
                          {"random_low", "lowest", Style::percent},
                          {"random_high", "highest", Style::percent}},
              .rows = {}};
  const auto at = [](const PruneCurve& curve, std::size_t removed) {
    return removed == 0 ? curve.accuracy : curve.steps[removed - 1].accuracy;
  };
  for (std::size_t n = 0; n <= orders.iterative.steps.size(); ++n) {
    double sum = 0, low = 1, high = 0;
    for (const PruneCurve& curve : orders.random) {
      sum += at(curve, n);
      low = std::min(low, at(curve, n));
      high = std::max(high, at(curve, n));
    }
    table.rows.push_back({static_cast<std::int64_t>(n), at(orders.iterative, n), at(orders.one_shot, n),
                          at(orders.damage, n), sum / static_cast<double>(orders.random.size()), low, high});
  }
  return table;
}

std::string outcome_of(const Pruned& p) {
  const std::size_t all = p.roles.size(), gone = p.curve.within_budget;
  std::string text =
      gone == 0 ? fmt::format("No head of {} can go", all) : fmt::format("{} of {} heads can go", gone, all);
  text += fmt::format(" within {} point{} of accuracy", p.budget, p.budget == 1 ? "" : "s");
  if (p.mean) text += ", leaving their means behind";
  if (p.fine_tuned > 0) text += fmt::format("; then fine-tuned for {} steps", p.fine_tuned);
  text += p.out.empty() ? "; nothing was written\n" : fmt::format("; written to {}\n", p.out);
  return p.missing.empty() ? text : text + fmt::format("Note: {}\n", p.missing);
}

}  // namespace

Report prune_report(const Pruned& p) {
  const Table steps = steps_of(p), survivors = survivors_of(p);
  std::string text = fmt::format("{}: heads go by the order {}\n\n", p.folder, p.order) + text_of(steps);
  if (!p.left.empty()) text += "\nWho is left\n" + text_of(survivors);
  text += "\nOn sequences that neither ranked nor judged\n" + sizes_text(p) + "\n" + times_text(p);
  std::vector<Table> tables{steps, survivors, models_of(p)};
  if (p.orders) {
    tables.push_back(orders_of(*p.orders));
    text += "\nAccuracy by order\n" + text_of(tables.back());
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
                     {"notes", p.missing.empty() ? std::vector<std::string>{} : std::vector{p.missing}}},
          .tables = tables,
          .csv = p.orders ? tables.back() : steps};
}

}  // namespace polyhead::cli
