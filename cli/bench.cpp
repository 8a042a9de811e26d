#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "cli/bench_ops.h"
#include "cli/device.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/timing.h"
#include "core/memory.h"
#include "polyhead/info.h"

namespace polyhead::cli {
namespace {

struct BenchOptions {
  std::vector<std::string> shapes;
  std::optional<bool> causal;
  std::string op = "attention", dtype = "f32", statistics = "none", format = "table";
  std::int64_t threads = 0;
};

using Shape = BenchShape;
constexpr std::array<Shape, 8> kShapes{{{4, 4, 16, 128},
                                        {2, 8, 10, 64},
                                        {64, 4, 32, 32},
                                        {8, 12, 128, 64},
                                        {1, 12, 1024, 64},
                                        {4, 12, 1024, 64},
                                        {1, 32, 2048, 128},
                                        {1, 12, 8192, 64}}};
constexpr std::int64_t kLargestSize = 1'000'000;
constexpr std::int64_t kMostElements = 1'000'000'000;  // of q: 4 GB

Shape shape_of(const std::string& text) {
  std::array<std::int64_t, 4> sizes{};
  const char *at = text.data(), *const end = at + text.size();
  bool good = true;
  for (std::size_t i = 0; i < sizes.size() && good; ++i) {
    if (i > 0) good = at != end && *at++ == ',';
    const auto [next, error] = std::from_chars(at, end, sizes[i]);
    good = good && error == std::errc{} && sizes[i] >= 1 && sizes[i] <= kLargestSize;
    at = next;
  }
  if (!good || at != end) {
    throw Failure(Exit::usage, fmt::format("--shape: expected batch,heads,tokens,head width such as 1,12,1024,64, each "
                                           "from 1 to {}, found '{}'",
                                           kLargestSize, text));
  }
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

std::string text_of(const Shape& s) { return fmt::format("{},{},{},{}", s.batch, s.heads, s.tokens, s.dim); }

DType dtype_named(const std::string& name) {
  return name == "f16" ? DType::f16 : name == "bf16" ? DType::bf16 : DType::f32;
}

const BenchOp& op_named(const std::string& name) {
  return *std::find_if(bench_ops().begin(), bench_ops().end(), [&](const BenchOp& op) { return op.name == name; });
}
std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const BenchOp& op : bench_ops()) names.push_back(op.name);
  return names;
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options), op_(op_named(options.op)), context_(static_cast<int>(options.threads)) {
    settings_.dtype = dtype_named(options.dtype);
    if (options.statistics == "light") settings_.statistics = StatisticsSet::light;
    if (options.statistics == "full") settings_.statistics = StatisticsSet::full;
    if (options.causal.value_or(false) && !op_.takes_mask) {
      throw Failure(Exit::usage, fmt::format("--causal: a mask makes no difference to {}", op_.name));
    }
    if (settings_.statistics != StatisticsSet::none && !op_.takes_statistics) {
      throw Failure(Exit::usage, fmt::format("--statistics: {} reports none; try --op attention", op_.name));
    }
  }

  int threads() const { return context_.threads(); }
  const BenchOp& op() const { return op_; }

  void measure(const Shape& shape) {
    const double width = static_cast<double>(shape.heads) * static_cast<double>(shape.dim);
    const double elements = std::max(static_cast<double>(shape.batch) * static_cast<double>(shape.tokens) * width,
                                     op_.has_weights ? 4 * width * width : 0);
    if (elements > static_cast<double>(kMostElements)) {
      throw Failure(Exit::input, fmt::format("--shape {}: {:.2g} elements in one tensor, expected at most {:.0g}",
                                             text_of(shape), elements, static_cast<double>(kMostElements)));
    }
    // Inputs, outputs and gradients: at most this many tensors of this size.
    constexpr double kTensors = 8, kBytes = 4;
    expect_memory("bench", "--shape " + text_of(shape), kTensors * kBytes * elements, "choose smaller sizes");
    for (const bool causal : {false, true}) {
      if (causal != options_.causal.value_or(causal)) continue;
      if (causal && !op_.takes_mask) continue;
      settings_.causal = causal;
      const Trial trial = op_.make(shape, settings_);
      add(shape, causal, time([&] { trial.call(context_); }), trial);
    }
  }

  Table table{.name = "shapes",
              .columns = {{"batch", "B", Style::count},
                          {"heads", "H", Style::count},
                          {"tokens", "T", Style::count},
                          {"head_dim", "D", Style::count},
                          {"mask", "mask"},
                          {"seconds", "median", Style::seconds},
                          {"runs", "runs", Style::count, 2},
                          {"flops_per_second", "FLOP/s", Style::scaled},
                          {"scores_per_second", "scores/s", Style::scaled, 1}},
              .rows = {}};

 private:
  void add(const Shape& s, bool causal, const Timing& timing, const Trial& trial) {
    table.rows.push_back({s.batch, s.heads, s.tokens, s.dim, causal ? "causal" : "none", timing.seconds, timing.runs,
                          trial.flops / timing.seconds, trial.scores / timing.seconds});
  }

  const BenchOptions& options_;
  const BenchOp& op_;
  Context context_;
  BenchSettings settings_;
};

Report report_of(const BenchOptions& options) {
  std::vector<Shape> shapes;
  for (const std::string& text : options.shapes) shapes.push_back(shape_of(text));
  if (shapes.empty()) shapes.assign(kShapes.begin(), kShapes.end());
  Bench bench(options);
  std::optional<Progress> progress(std::in_place, "bench", std::ssize(shapes));
  const Signals signals;
  for (std::size_t i = 0; i < shapes.size() && Signals::noted() == 0; ++i) {
    progress->update(static_cast<std::int64_t>(i), text_of(shapes[i]));
    bench.measure(shapes[i]);
  }
  progress.reset();
  const std::string target = info().target;
  std::string text = fmt::format("{}, {}, {}, {} thread{}, statistics: {}\n\n", bench.op().what, options.dtype, target,
                                 bench.threads(), bench.threads() == 1 ? "" : "s", options.statistics);
  text += cli::text_of(bench.table);
  text += "\nFLOP: two per multiply-add; causal attention counts half. Scores: query-key pairs that are visible.\n";
  return {.command = "bench",
          .text = text,
          .fields = {{"op", options.op},
                     {"dtype", options.dtype},
                     {"target", target},
                     {"threads", std::int64_t{bench.threads()}},
                     {"statistics", options.statistics}},
          .tables = {bench.table},
          .csv = bench.table};
}

}  // namespace

Command bench_command() {
  auto o = std::make_shared<BenchOptions>();
  return {.name = "bench",
          .summary = "the speed of attention on this machine",
          .description =
              "Times attention, or another op, on eight standard shapes, with and without a causal mask: median time, "
              "floating-point operations and visible scores per second.",
          .examples = {{"polyhead bench", "eight standard shapes, in half a minute"},
                       {"polyhead bench --shape 1,12,4096,64 --causal", "one shape of yours, causal only"},
                       {"polyhead bench --statistics light", "with statistics of every head"},
                       {"polyhead bench --op training --shape 16,8,128,64",
                        "a layer of width 512 forward and backward, 16 sequences of 128 tokens"},
                       {"polyhead bench --dtype bf16 --threads 1 --format csv", "one thread, bf16, for a script"}},
          .options = {{"shape", "B,H,T,D",
                       "batch, heads, tokens, head width instead of the standard shapes; repeatable", &o->shapes},
                      {"op", "OP", "attention, backward, decode, layer, training or projection", &o->op, op_names()},
                      {"causal", "", "only causal, or only without a mask; otherwise both", &o->causal},
                      {"dtype", "TYPE", "f32, f16 or bf16", &o->dtype, {"f32", "f16", "bf16"}},
                      {"threads", "N", "threads; 0 for one per processor", &o->threads, {}, 0, kMostThreads},
                      {"statistics", "SET", "none, light or full", &o->statistics, {"none", "light", "full"}},
                      format_option(o->format)},
          .run = [o] {
            print(report_of(*o), o->format);
            Signals::end_if_noted("stopped before all shapes were timed");
          }};
}

}  // namespace polyhead::cli
