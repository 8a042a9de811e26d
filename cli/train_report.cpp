#include <fmt/format.h>

#include "cli/progress.h"
#include "cli/train.h"

namespace polyhead::cli {
namespace {

// Everything in one row; unknown numbers are left out.
Table table_of(const train::Run& run, const train::Outcome& outcome, double steps_per_second) {
  const std::optional<double> best = run.task().best_score();
  const double tokens = static_cast<double>(run.plan().training.batch * run.task().context());
  const auto rate = [&](double times) { return steps_per_second > 0 ? Value(times * steps_per_second) : Value(); };
  Table table{.name = "run",
              .columns = {{"task", "task"},
                          {"folder", "folder"},
                          {"parameters", "parameters", Style::count},
                          {"steps", "steps", Style::count},
                          {"seed", "seed", Style::count},
                          {"loss", "loss", Style::decimal},
                          {"validation_loss", "validation loss", Style::decimal},
                          {"validation_accuracy", "validation accuracy", Style::percent},
                          {"best_accuracy", "best possible", Style::percent},
                          {"seconds", "time of training", Style::seconds},
                          {"steps_per_second", "steps per second", Style::decimal},
                          {"tokens_per_second", "tokens per second", Style::scaled}},
              .rows = {}};
  table.rows.push_back({run.task().name(), run.folder().string(), run.model().parameter_count(), outcome.last.step,
                        static_cast<std::int64_t>(run.plan().training.seed), outcome.last.loss, outcome.validation.loss,
                        outcome.validation.accuracy, best ? Value(*best) : Value(), outcome.seconds, rate(1),
                        rate(tokens)});
  return table;
}

}  // namespace

Report report_of(const train::Run& run, const train::Outcome& outcome, double steps_per_second) {
  Report report{
      .command = "train", .text = {}, .fields = {}, .tables = {}, .csv = table_of(run, outcome, steps_per_second)};
  const std::vector<Value>& row = report.csv.rows[0];
  for (std::size_t c = 0; c < row.size(); ++c) {
    const Column& column = report.csv.columns[c];
    report.fields.emplace_back(column.key, row[c]);
    if (std::holds_alternative<std::monostate>(row[c])) continue;
    const std::string text =
        column.key == "seconds" && outcome.seconds >= 60 ? clock_text(outcome.seconds) : text_of(row[c], column.style);
    report.text += fmt::format("{:<20} {}\n", column.heading, text);
  }
  return report;
}

}  // namespace polyhead::cli
