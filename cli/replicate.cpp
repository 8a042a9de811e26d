#include "replicate/replicate.h"

#include <fmt/format.h>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "io/fetched.h"
#include "io/file.h"

namespace polyhead::cli {
namespace {

struct ReplicateOptions {
  std::vector<std::string> models, only;
  std::string out = "polyhead-replicate";
  bool quick = false;
  DeviceChoice on;
  std::string format = "table";
};

// Those named, or all that were fetched.
std::vector<std::filesystem::path> models_of(const ReplicateOptions& o) {
  std::vector<std::filesystem::path> found;
  for (const std::string& name : o.models) {
    found.push_back(io::model_meant(name));
    if (found.back().empty()) throw Failure(Exit::input, io::nothing_at(name));
  }
  for (const io::KnownModel& known : io::known_models()) {
    if (o.models.empty() && !io::fetched_model(known.name).empty()) found.push_back(io::fetched_model(known.name));
  }
  return found;
}

std::vector<replicate::Result> results_of(const ReplicateOptions& o) {
  Context context = o.on.context();
  const Signals signals;
  std::optional<Progress> bar;
  const std::vector<replicate::Result> results =
      replicate::replicate(context, {.folder = o.out,
                                     .models = models_of(o),
                                     .only = o.only,
                                     .quick = o.quick,
                                     .on_result =
                                         [&](const std::string& what, std::int64_t done, std::int64_t total) {
                                           if (!bar) bar.emplace("replicate", total, done);
                                           bar->update(done, what);
                                         },
                                     .go_on = [] { return Signals::noted() == 0; }});
  bar.reset();
  Signals::end_if_noted(
      fmt::format("stopped; what was found is kept. To continue: the same command again, with --out {}", o.out));
  return results;
}

Report report_of(const std::vector<replicate::Result>& results, const ReplicateOptions& o) {
  Table table{.name = "results",
              .columns = {{"result", "result"},
                          {"model", "model"},
                          {"verdict", "verdict"},
                          {"sentence", "", Style::words, 1},
                          {"claim", "", Style::words, 1},
                          {"source", "", Style::words, 1},
                          {"published", "", Style::words, 1},
                          {"definition", "", Style::words, 1},
                          {"ours_what", "", Style::words, 1},
                          {"ours", "ours", Style::decimal},
                          {"ours_low", "low", Style::decimal},
                          {"ours_high", "high", Style::decimal},
                          {"control_what", "", Style::words, 1},
                          {"control", "control", Style::decimal},
                          {"control_low", "", Style::decimal, 1},
                          {"control_high", "", Style::decimal, 1},
                          {"heads", "", Style::words, 1}},
              .rows = {}};
  Table further{.name = "further",
                .columns = {{"result", "result"},
                            {"model", "model"},
                            {"what", "what"},
                            {"value", "value", Style::decimal},
                            {"low", "low", Style::decimal},
                            {"high", "high", Style::decimal}},
                .rows = {}};
  std::string text;
  for (const replicate::Result& result : results) {
    const replicate::Published& about = replicate::published(result.name);
    std::vector<std::string> heads;
    for (const HeadId& id : result.heads) heads.push_back(to_string(id));
    const auto& [ours, control] = std::pair(result.ours.value, result.control.value);
    table.rows.push_back({result.name, result.model, replicate::words_of(result.verdict), result.sentence, about.claim,
                          about.source, about.number, about.definition, result.ours.what, ours.mean, ours.low,
                          ours.high, result.control.what, control.mean, control.low, control.high,
                          fmt::format("{}", fmt::join(heads, " "))});
    for (const replicate::Measure& measure : result.further) {
      const Estimate& value = measure.value;
      further.rows.push_back({result.name, result.model, measure.what, value.mean, value.low, value.high});
    }
    text += wrapped(fmt::format("{} ({}): {}\n", about.claim, about.source, about.number), 2);
    text += "  " +
            wrapped(fmt::format("{}: {}. {}", result.model, replicate::words_of(result.verdict), result.sentence), 2) +
            "\n\n";
  }
  text += text_of(table, {"result", "model", "verdict", "ours", "ours_low", "ours_high", "control"});
  text += fmt::format("\n{}/replicate.html says how each was measured.\n", o.out);
  return {.command = "replicate",
          .text = text,
          .fields = {{"folder", o.out}, {"quick", o.quick}},
          .tables = {table, further},
          .csv = table};
}

void run(const ReplicateOptions& o) {
  const std::vector<replicate::Result> results = results_of(o);
  const std::filesystem::path page = std::filesystem::path(o.out) / "replicate.html";
  io::write_atomically(page,
                       [&](io::Writer& writer) { writer.write(report::html(replicate::page_of(results, o.quick))); });
  print(report_of(results, o), o.format);
}

}  // namespace

Command replicate_command() {
  auto o = std::make_shared<ReplicateOptions>();
  return {
      .name = "replicate",
      .summary = "published results about heads, looked for again in models at hand",
      .description =
          "Looks for what has been published about attention heads in the models named, or in all that 'polyhead get' "
          "has fetched, and in small models that it trains: heads for previous tokens, induction and duplicates, "
          "sinks, "
          "copying, name movers, copy suppression, successors, retrieval, which heads can go, and what heads of an "
          "encoder look at. Each result comes with the published number, its definition, ours with an interval, a "
          "control, what taking the heads out does, and a verdict. Heads are chosen on half of the sequences, and what "
          "is said of them was measured on the other half. Writes a folder: one file for each result, and "
          "replicate.html. Run again, it goes on where it stopped: what was found for the same weights is not looked "
          "for again.",
      .examples = {{"polyhead replicate --quick", "a first look at all models that were fetched"},
                   {"polyhead replicate smollm2 --only sinks --only induction", "two results of one model"},
                   {"polyhead replicate smollm2 --format json", "every number, to cite"}},
      .options = {{"MODEL", "", "models with a tokenizer; default: those that 'polyhead get' has fetched", &o->models},
                  {"only", "NAME", "look for this result alone; may be given again", &o->only},
                  {"quick", "", "fewer sequences, heads, prompts and seeds", &o->quick},
                  {"out", "FOLDER", "where results and the page are kept", &o->out},
                  o->on.threads_option(),
                  format_option(o->format)},
      .run = [o] { run(*o); }};
}

}  // namespace polyhead::cli
