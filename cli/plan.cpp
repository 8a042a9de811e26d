#include "cli/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/arithmetic.h"
#include "cli/device.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/rates.h"
#include "cli/subject.h"
#include "core/suggest.h"
#include "io/fetched.h"
#include "io/file.h"
#include "model/checkpoint.h"
#include "model/family.h"

namespace polyhead::cli {
namespace {

struct PlanOptions {
  std::vector<std::string> names;
  std::int64_t ranks = 64, heads = 1, batch = 32;
  std::optional<std::int64_t> tokens, parts, samples;
  std::optional<double> latency, bandwidth, gflops, gigabytes;
  DeviceChoice on;
  std::string format = "table";
};

constexpr double kMicro = 1e-6, kGiga = 1e9;
constexpr std::int64_t kParts = 16, kMostTokens = 1024, kTaskSequences = 256, kTextSequences = 4, kTaskBatch = 32;
constexpr std::size_t kMostConfig = 1 << 24;

model::Config config_of(const Model& preset) {
  if (preset.vocabulary == 0 || preset.decoder_layers > 0) {
    throw Failure(
        Exit::input,
        fmt::format("{} ({}): expected a whole model of one stack of layers, such as gpt2, found "
                    "{}; 'polyhead count' counts it",
                    preset.name, preset.title, preset.decoder_layers > 0 ? "an encoder and a decoder" : "a layer"));
  }
  model::Config config = model::make_config(model::Kind::gpt, preset.layers, preset.width, preset.heads);
  config.vocabulary = preset.vocabulary;
  config.context = preset.context > 0 ? preset.context : preset.tokens;
  config.positions = preset.context > 0 ? model::Positions::learned : model::Positions::rotary;
  config.hidden = preset.ff;
  config.feed_forward = preset.gated_ff ? model::FeedForward::swiglu : model::FeedForward::gelu;
  config.norm = preset.norm == Norm::rms ? model::Norm::rms : model::Norm::layer;
  config.bias = preset.out_bias;
  config.tied = preset.tied;
  return config;
}

// A model of polyhead's own is examined on its task, others on a text.
struct Planned {
  std::string name;
  model::Config config;
  bool own = false;
};

Planned planned(const std::string& name) {
  const std::filesystem::path meant = io::model_meant(name);
  if (meant.empty()) {
    std::vector<std::string> names;
    for (const Model& preset : presets()) {
      if (preset.name == name) return {name, config_of(preset)};
      names.push_back(preset.name);
    }
    throw Failure(Exit::input, fmt::format("{}; or a model that is known by name: {}{}", io::nothing_at(name),
                                           fmt::join(names, ", "), did_you_mean(name, names)));
  }
  if (meant.extension() == ".json") {
    return {name, model::config_from_json(io::read_file(meant, kMostConfig), meant.string()), true};
  }
  if (model::is_own(meant)) return {name, model::load_config(meant), true};
  return {name, model::foreign_config(io::list_weights(meant))};
}

Workload workload_of(const PlanOptions& o, const Planned& model) {
  Workload work{.config = model.config, .batch = o.batch};
  work.tokens = o.tokens.value_or(std::min(kMostTokens, model.config.context));
  work.parts = o.parts.value_or(std::min(o.batch, std::max(kParts, o.ranks)));
  if (work.parts > work.batch) {
    throw Failure(Exit::usage,
                  fmt::format("--parts: expected at most as many as the batch has sequences ({}), found {}", work.batch,
                              work.parts));
  }
  if (work.tokens > model.config.context && model.config.positions == model::Positions::learned) {
    throw Failure(Exit::usage, fmt::format("--tokens: expected at most the model's context of {}, found {}",
                                           model.config.context, work.tokens));
  }
  work.sequences = o.samples.value_or(model.own ? kTaskSequences : kTextSequences);
  work.window = model.own ? work.tokens : std::min(work.tokens, SubjectChoice().length);
  work.at_once = std::min(work.sequences, model.own ? kTaskBatch : windows_at_once(work.window));
  // Of its own models the trained and an untrained one, on sequences and on repeats. Roles of others are of texts that
  // come with polyhead, and kept.
  work.surveys = model.own ? 4 : 1;
  work.per_head = model.own && model.config.kind != model::Kind::encoder ? 2 : 1;
  return work;
}

// 1, 2, 4 ... and the most.
std::vector<std::int64_t> numbers_up_to(std::int64_t most) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t n = 1; n < most; n *= 2) numbers.push_back(n);
  numbers.push_back(most);
  return numbers;
}

// On two or more ranks the first two find out how fast messages are.
Link link_of(const PlanOptions& o, std::string& from) {
  const bool measured = ranks().size() > 1 && !(o.latency && o.bandwidth);
  Link link = measured ? measured_link(ranks()) : kAssumedLink;
  if (o.latency) link.latency = *o.latency * kMicro;
  if (o.bandwidth) link.bandwidth = *o.bandwidth * kGiga;
  from = measured                   ? fmt::format("Measured between two ranks, by {}.", ranks().transport())
         : o.latency && o.bandwidth ? "As given by --latency and --bandwidth."
                                    : "Assumed where --latency and --bandwidth do not say; on two ranks or more "
                                      "('mpirun -n 2 polyhead plan ...') it is measured.";
  return link;
}

Rates rates_of(const PlanOptions& o, const Workload& work, std::string& from) {
  if (o.gflops && o.gigabytes) {
    from = "As given by --gflops and --gigabytes.";
    return rates_for(*o.gflops * kGiga, *o.gigabytes * kGiga);
  }
  if (o.gflops || o.gigabytes) {
    throw Failure(Exit::usage,
                  "--gflops and --gigabytes go together: both are of another machine, or both are measured here");
  }
  const Sample sample = sample_of(work);
  Context context = o.on.context();
  Progress progress("measuring");
  const Rates rates = measured_rates(context, sample, [&](const char* stage) { progress.note(stage); });
  from = fmt::format("Measured here on {} thread{}{}, with {} of {} layers, width {}, {} x {} tokens.",
                     context.threads(), context.threads() == 1 ? "" : "s",
                     context.threads() == 1 ? " by processor time" : "", sample.config.layers.size(),
                     work.config.layers.size(), sample.config.width, sample.sequences, sample.tokens);
  return rates;
}

void make_plan(const PlanOptions& o) {
  Plan plan;
  together(ranks(), [&] {
    if (o.names.size() != 1) {
      throw Failure(Exit::usage,
                    "expected one model: a folder, a config.json, a .gguf file, a fetched model, or a name "
                    "such as gpt2, as in 'polyhead plan gpt2'");
    }
    const Planned model = planned(o.names[0]);
    plan.name = model.name;
    plan.work = workload_of(o, model);
  });
  plan.link = link_of(o, plan.link_from);
  if (ranks().rank() > 0) return;
  plan.rates = rates_of(o, plan.work, plan.rates_from);
  for (const std::int64_t n : numbers_up_to(o.ranks)) {
    const bool learns = plan.work.config.kind != model::Kind::encoder;
    plan.work.heads = std::min(o.heads, n);
    if (learns && n % plan.work.heads == 0 && n / plan.work.heads <= plan.work.parts) {
      plan.training.push_back(forecast_training(plan.work, plan.rates, plan.link, n));
    }
    if (n <= plan.work.tokens) plan.prefill.push_back(forecast_prefill(plan.work, plan.rates, plan.link, n));
    plan.scan.push_back(forecast_scan(plan.work, plan.rates, plan.link, n));
  }
  print(plan_report(plan), o.format);
}

}  // namespace

Command plan_command() {
  auto o = std::make_shared<PlanOptions>();
  return {
      .name = "plan",
      .summary = "what more ranks would bring: time, traffic and memory, before there are any",
      .description =
          "Measures for a few seconds how fast one process does the work of a model, and works out what training, a "
          "pass over one sequence and 'polyhead heads --damage' would take on 1, 2, 4 ... ranks: the time and where it "
          "goes, "
          "the bytes that are sent, the memory of each rank, and how many ranks are worth adding. Nothing is trained, "
          "and no weights are read: a config is enough. Started on two ranks or more, it measures how fast messages "
          "between them are.",
      .examples = {{"polyhead plan run --ranks 16", "a model that polyhead trained, on up to 16 ranks"},
                   {"polyhead plan gpt2 --batch 512 --ranks 4096 --latency 2 --bandwidth 25",
                    "GPT-2 on a cluster with 200 Gbit/s"},
                   {"polyhead plan gpt2 --batch 8 --parts 8 --heads 4", "four ranks share every pass of training"},
                   {"mpirun -n 2 polyhead plan run", "with the speed of messages between these two"},
                   {"polyhead plan gpt2 --gflops 2000 --gigabytes 300 --format csv", "for machines that are not here"}},
      .options =
          {{"MODEL", "",
            "a model's folder, its config.json, a .gguf file, a fetched model, or a model that 'polyhead "
            "count' knows",
            &o->names},
           {"ranks", "N", "the most ranks to ask about", &o->ranks, {}, 1, 65'536},
           {"heads",
            "N",
            "ranks that share the heads and products of every pass of training",
            &o->heads,
            {},
            1,
            65'536},
           {"bandwidth",
            "X",
            fmt::format("gigabytes per second from one rank to another; default: measured on ranks, else {:.3g}",
                        kAssumedLink.bandwidth / kGiga),
            &o->bandwidth,
            {},
            0,
            1'000'000,
            true},
           {"latency",
            "X",
            fmt::format("microseconds until a message's first byte is there; default: measured on ranks, else {:.3g}",
                        kAssumedLink.latency / kMicro),
            &o->latency,
            {},
            0,
            1'000'000},
           {"batch", "N", "sequences per step", &o->batch},
           {"parts", "N",
            fmt::format("parts of a batch; default: {}, or one for each rank, as far as the batch has sequences",
                        kParts),
            &o->parts},
           {"tokens",
            "N",
            "tokens of a sequence; default: the model's context, up to 1024",
            &o->tokens,
            {},
            1,
            100'000'000},
           {"samples", "N",
            fmt::format("sequences that a scan judges heads by; default: {}, or {} for a model that others trained",
                        kTaskSequences, kTextSequences),
            &o->samples},
           {"gflops",
            "X",
            "billion operations per second of a rank, instead of measuring",
            &o->gflops,
            {},
            0,
            1'000'000'000,
            true},
           {"gigabytes",
            "X",
            "gigabytes of memory per second that a rank reads and writes, beside --gflops",
            &o->gigabytes,
            {},
            0,
            1'000'000,
            true},
           o->on.threads_option(),
           format_option(o->format)},
      .run = [o] { make_plan(*o); },
      .on_ranks = true};
}

}  // namespace polyhead::cli
