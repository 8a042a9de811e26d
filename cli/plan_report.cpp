#include <fmt/format.h>

#include "cli/plan.h"
#include "model/memory.h"

namespace polyhead::cli {
namespace {

struct Section {
  std::string name, title;
  const std::vector<Forecast>& forecasts;
};

Table table_of(const std::vector<Section>& sections) {
  Table table{.name = "forecasts",
              .columns = {{"work", "work"},
                          {"ranks", "ranks", Style::count},
                          {"seconds", "time", Style::seconds},
                          {"speed_up", "speed-up", Style::decimal},
                          {"efficiency", "per rank", Style::percent},
                          {"shared", "shared", Style::seconds},
                          {"uneven", "uneven", Style::seconds, 2},
                          {"repeated", "not divided", Style::seconds, 3},
                          {"sending", "messages", Style::seconds},
                          {"bytes", "bytes sent", Style::scaled, 5},
                          {"memory", "memory each", Style::scaled, 4}},
              .rows = {}};
  for (const Section& section : sections) {
    for (const Forecast& f : section.forecasts) {
      const double faster = section.forecasts.front().seconds() / f.seconds();
      table.rows.push_back({section.name, f.ranks, f.seconds(), faster, faster / static_cast<double>(f.ranks), f.shared,
                            f.uneven, f.repeated, f.sending, f.bytes, f.memory});
    }
  }
  return table;
}

Table rows_of(Table table, const std::string& work) {
  std::erase_if(table.rows, [&](const auto& row) { return std::get<std::string>(row[0]) != work; });
  return table;
}

std::string worth_text(const Plan& plan, const Section& section) {
  const Worth worth = worth_of(section.forecasts);
  const std::int64_t last = section.forecasts.back().ranks;
  if (!worth.why.empty()) {
    return fmt::format("Pays up to {} rank{}; beyond that the time goes to {}.", worth.ranks,
                       worth.ranks == 1 ? "" : "s", worth.why);
  }
  if (section.name == "training" && last == plan.work.parts * plan.work.heads) {
    return plan.work.heads == 1
               ? fmt::format("Pays up to {} ranks, as many as the batch has parts: more have nothing to do.", last)
               : fmt::format("Pays up to {} ranks, {} for each of {} parts: more have nothing to do.", last,
                             plan.work.heads, plan.work.parts);
  }
  return fmt::format("Pays up to {} ranks, the most that were asked about.", last);
}

std::string rate(double number, const char* unit) { return text_of(number, Style::scaled) + unit; }

std::string headline(const Plan& plan) {
  const Workload& w = plan.work;
  const Rates& r = plan.rates;
  std::string text =
      fmt::format("{}: {} parameters, {} heads in {} layers; {} sequences of {} tokens a step, in {} parts{}\n",
                  plan.name, text_of(static_cast<std::int64_t>(model::parameter_count(w.config)), Style::count),
                  w.config.head_count(), w.config.layers.size(), w.batch, w.tokens, w.parts,
                  w.heads == 1 ? "" : fmt::format(", each shared by {} ranks", w.heads));
  text += wrapped(fmt::format("One rank: {} forward and backward, {} forward; {} of a gradient's numbers summed, {} "
                              "parameters changed, {} outputs merged. {}",
                              rate(r.training, "FLOP/s"), rate(r.forward, "FLOP/s"), rate(r.sums, "/s"),
                              rate(r.steps, "/s"), rate(r.merges, "/s"), plan.rates_from),
                  2) +
          '\n';
  text +=
      wrapped(fmt::format("Two ranks: {} until a message is there, {} each way. {}",
                          text_of(plan.link.latency, Style::seconds), rate(plan.link.bandwidth, "B/s"), plan.link_from),
              2) +
      '\n';
  return text;
}

const std::vector<std::string>& assumptions() {
  static const std::vector<std::string> all{
      "ranks are alike, each has its own processors and memory, and computes as fast as this one",
      "a message of n bytes takes latency + n / bandwidth, however many are under way; a broadcast goes down a binary "
      "tree",
      "training: in f32, with no message while a pass computes, without checkpoints and validation; one rank has as "
      "many parts; ranks that share a pass divide all of it but attention evenly",
      "prefill: one sequence by ops/ring.h, which no command uses; causal ones in halves; keys travel while ranks "
      "compute; windows save messages, but count as if they computed with all",
      "a scan: polyhead heads --damage; what rank 0 does alone is counted as a gradient and four surveys (one of a "
      "model that others trained, whose roles are kept), each as fast as a pass; memory is that of rank 0"};
  return all;
}

}  // namespace

Report plan_report(const Plan& plan) {
  const std::vector<Section> sections{{"training", "Training, a step", plan.training},
                                      {"prefill", fmt::format("Prefill, {} tokens", plan.work.tokens), plan.prefill},
                                      {"scan",
                                       fmt::format("A scan, {} sequences of {} tokens without each head in turn",
                                                   plan.work.sequences, plan.work.window),
                                       plan.scan}};
  const Table table = table_of(sections);
  std::string text = headline(plan);
  for (const Section& section : sections) {
    if (section.forecasts.empty()) continue;
    text += fmt::format("\n{}\n{}{}\n", section.title,
                        text_of(rows_of(table, section.name), {"ranks", "seconds", "speed_up", "shared", "uneven",
                                                               "repeated", "sending", "bytes", "memory"}),
                        wrapped(worth_text(plan, section), 0));
  }
  text += "\nAdding ranks pays while each that is added brings a quarter of what those before it bring. Assumed:\n";
  for (const std::string& assumption : assumptions()) text += "- " + wrapped(assumption, 2) + "\n";
  Report report{.command = "plan",
                .text = text,
                .fields = {{"model", plan.name},
                           {"parameters", static_cast<std::int64_t>(model::parameter_count(plan.work.config))},
                           {"batch", plan.work.batch},
                           {"tokens", plan.work.tokens},
                           {"parts", plan.work.parts},
                           {"ranks_to_a_pass", plan.work.heads},
                           {"sequences", plan.work.sequences},
                           {"window", plan.work.window},
                           {"latency", plan.link.latency},
                           {"bandwidth", plan.link.bandwidth},
                           {"training_flops_per_second", plan.rates.training},
                           {"forward_flops_per_second", plan.rates.forward},
                           {"sums_per_second", plan.rates.sums},
                           {"steps_per_second", plan.rates.steps},
                           {"merges_per_second", plan.rates.merges},
                           {"rates_from", plan.rates_from},
                           {"link_from", plan.link_from}},
                .tables = {table},
                .csv = table};
  for (const Section& section : sections) {
    if (!section.forecasts.empty()) report.fields.emplace_back(section.name + "_pays", worth_text(plan, section));
  }
  report.fields.emplace_back("assumptions", assumptions());
  return report;
}

}  // namespace polyhead::cli
