#include "cli/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/terminal.h"

namespace polyhead::cli {
namespace {

struct TraceOptions {
  Sizes sizes;
  bool causal = false;
  std::int64_t seed = 1;
  std::string example, format = "table";
};

// A trace is for people to read: plain loops of a few seconds at most.
constexpr double kMostWork = 2e9;

void check_sizes(const Sizes& s) {
  if (s.width % s.heads != 0) {
    throw Failure(Exit::input,
                  fmt::format("a width of {} does not divide into {} heads ({} left over); choose a number "
                              "of heads that divides it",
                              s.width, s.heads, s.width % s.heads));
  }
  const auto rows = static_cast<double>(s.batch * s.tokens);
  const auto width = static_cast<double>(s.width);
  const double work = rows * width * (5 * width + 2 * static_cast<double>(s.tokens));
  if (work <= kMostWork) return;
  throw Failure(
      Exit::input,
      fmt::format("[{},{},{}] is {:.1g} multiply-adds, a trace takes at most {:.0g}; choose smaller sizes, or "
                  "'polyhead bench --shape {},{},{},{}' for speed",
                  s.batch, s.tokens, s.width, work, kMostWork, s.batch, s.heads, s.tokens, s.width / s.heads));
}

std::vector<std::string> numbered(const std::string& word, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", word, i));
  return names;
}

// The numbers of the first sequence: [T,C], or [H,T,..] head by head.
std::string numbers_of(const Step& step) {
  const Dims& shape = step.shape;
  if (shape.rank() == 3) {
    return matrix_text(fmt::format("{}: {}", step.name, step.how), numbered("token ", shape[1]), numbered("", shape[2]),
                       step.values.data());
  }
  std::string text;
  for (std::int64_t h = 0; h < shape[1]; ++h) {
    const bool over_keys = step.name == "scores" || step.name == "weights";
    text += matrix_text(fmt::format("{}, head {}: {}", step.name, h, step.how), numbered("token ", shape[2]),
                        numbered(over_keys ? "key " : "", shape[3]), step.values.data() + h * shape[2] * shape[3]);
  }
  return text;
}

std::string text_of(const TraceOptions& o, const Trace& trace) {
  Table steps{.name = {}, .columns = {{"step", "step"}, {"shape", "shape"}, {"how", "how"}}, .rows = {}};
  for (const Step& step : trace.steps) steps.rows.push_back({step.name, to_string(step.shape), step.how});
  const Sizes& s = o.sizes;
  std::string text =
      fmt::format("Multi-head attention: [{},{},{}] through {} head{} of {}{}, seed {}\n\n", s.batch, s.tokens, s.width,
                  s.heads, s.heads == 1 ? "" : "s", s.width / s.heads, o.causal ? ", causal" : "", o.seed);
  text += text_of(steps);
  if (few_enough(s)) {
    text += s.batch > 1 ? "\nThe numbers of sequence 0\n" : "\nThe numbers\n";
    for (const Step& step : trace.steps) {
      // The split is shown for q; k and v are split alike.
      const bool again = step.name == "split" || step.name == "k by head" || step.name == "v by head";
      if (!again) text += numbers_of(step);
    }
  }
  text += "\nWhat every head did (mean over rows)\n" + text_of(trace.heads);
  text += fmt::format(
      "\nRows of the weights sum to 1 within {:.0e}; engine and plain loops in double differ by at most {:.0e}.\n",
      trace.weight_sum_error, trace.engine_error);
  if (s.heads > 1) {
    text += fmt::format("Knock out head 0, and {} of {} columns change before W_O, {} after it: W_O mixes the heads.\n",
                        trace.changed_before, s.width, trace.changed_after);
  }
  if (!few_enough(s))
    text += "'polyhead trace --batch 1 --tokens 4 --width 8 --heads 2' is small enough to show every number.\n";
  return text;
}

Report report_of(const TraceOptions& o) {
  check_sizes(o.sizes);
  const Trace trace = trace_attention(o.sizes, o.causal, o.seed);
  Report report{.command = "trace",
                .text = text_of(o, trace),
                .fields = {{"batch", o.sizes.batch},
                           {"tokens", o.sizes.tokens},
                           {"width", o.sizes.width},
                           {"heads", o.sizes.heads},
                           {"seed", o.seed},
                           {"weight_sum_error", trace.weight_sum_error},
                           {"engine_error", trace.engine_error},
                           {"columns_changed_before_projection", trace.changed_before},
                           {"columns_changed_after_projection", trace.changed_after}},
                .tables = {},
                .csv = {}};
  add_steps(trace.steps, report);
  report.tables.push_back(trace.heads);
  return report;
}

}  // namespace

std::vector<double> values_of(const ConstTensorView& view) {
  std::vector<double> values;
  const Dims& shape = view.shape();
  for (std::int64_t flat = 0; flat < view.count(); ++flat) {
    std::int64_t rest = flat, offset = 0;
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * view.stride(axis);
      rest /= shape[axis];
    }
    values.push_back(view.as<float>()[offset]);
  }
  return values;
}

std::string matrix_text(const std::string& title, const std::vector<std::string>& rows,
                        const std::vector<std::string>& columns, const double* values) {
  // If there are more columns than fit the page, blocks of them go below each other.
  constexpr std::size_t kMostColumns = 10, kColumns = 8, kLeast = 3;
  std::size_t name = 0, width = 6;
  for (const std::string& row : rows) name = std::max(name, row.size() + 2);
  for (const std::string& column : columns) width = std::max(width, column.size());
  const std::size_t fits = std::max((page().table - std::min(name, page().table)) / (width + 2), kLeast);
  const std::size_t block = columns.size() > std::min(kMostColumns, fits) ? std::min(kColumns, fits) : columns.size();
  std::string text = '\n' + title + '\n';
  for (std::size_t first = 0; first < columns.size(); first += block) {
    Table table{.name = {}, .columns = {{"", ""}}, .rows = {}};
    const std::size_t end = std::min(first + block, columns.size());
    for (std::size_t c = first; c < end; ++c) {
      table.columns.push_back({columns[c], fmt::format("{:>6}", columns[c]), Style::decimal});
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<Value> cells{"  " + rows[r]};
      for (std::size_t c = first; c < end; ++c) {
        const double value = values[r * columns.size() + c];
        cells.push_back(std::isinf(value) ? Value("hidden") : Value(value));
      }
      table.rows.push_back(std::move(cells));
    }
    text += text_of(table);
  }
  return text;
}

void add_steps(const std::vector<Step>& steps, Report& report) {
  Table table{.name = "steps", .columns = {{"step", ""}, {"shape", ""}, {"how", ""}, {"values", ""}}, .rows = {}};
  // One line per number, or per step if it has no numbers.
  report.csv = {.name = {}, .columns = {{"step", ""}, {"shape", ""}, {"element", ""}, {"value", ""}}, .rows = {}};
  for (const Step& step : steps) {
    const std::string shape = to_string(step.shape);
    table.rows.push_back({step.name, std::vector<std::int64_t>(step.shape.begin(), step.shape.end()), step.how,
                          step.values.empty() ? Value(std::monostate{}) : Value(step.values)});
    if (step.values.empty()) report.csv.rows.push_back({step.name, shape, std::monostate{}, std::monostate{}});
    for (std::size_t i = 0; i < step.values.size(); ++i) {
      report.csv.rows.push_back({step.name, shape, static_cast<std::int64_t>(i), step.values[i]});
    }
  }
  report.tables.push_back(std::move(table));
}

Command trace_command() {
  auto o = std::make_shared<TraceOptions>();
  return {.name = "trace",
          .summary = "multi-head attention step by step: shapes, and numbers where they are few",
          .description =
              "Follows random tokens through projections, split into heads, scores, softmax, heads, merge and "
              "W_O. For up to 12 tokens and a width of up to 16 every number is shown, otherwise only the shapes. The "
              "attention is the engine's own and is checked against plain loops on the way.",
          .examples = {{"polyhead trace", "[4,16,512] through 4 heads and back"},
                       {"polyhead trace --example crews", "a worked example of two heads, each knocked out in turn"},
                       {"polyhead trace --batch 1 --tokens 4 --width 8 --heads 2 --causal", "every number"},
                       {"polyhead trace --tokens 4 --width 8 --format csv", "the numbers for a spreadsheet"}},
          .options = {{"batch", "N", "sequences", &o->sizes.batch},
                      {"tokens", "N", "tokens of a sequence", &o->sizes.tokens},
                      {"width", "N", "width of the model, d_model", &o->sizes.width},
                      {"heads", "N", "attention heads", &o->sizes.heads},
                      {"causal", "", "no token sees a later one", &o->causal},
                      {"seed", "N", "seed of the random tokens and weights", &o->seed, {}, 0, INT32_MAX},
                      {"example", "NAME", "a worked example instead: crews", &o->example, {"crews"}},
                      format_option(o->format)},
          .run = [o] { print(o->example.empty() ? report_of(*o) : crews_report(), o->format); }};
}

}  // namespace polyhead::cli
