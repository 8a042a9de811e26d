#include "polyhead/info.h"

#include <fmt/format.h>

#include <fstream>

#include "cli/ranks.h"
#include "cli/report.h"
#include "polyhead/attention.h"

namespace polyhead::cli {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// A typical call, for `explain`.
struct Call {
  std::string name;
  Dims q, k;
  DType dtype = DType::f32;
  AttentionOptions options = {};
  AttentionWants wants = {};
};

std::vector<Call> typical_calls() {
  const Dims batch{8, 12, 128, 64}, text{1, 12, 1024, 64}, token{1, 12, 1, 64};
  std::vector<Call> calls{{"short sequences", batch, batch},
                          {"a causal text", text, text},
                          {"a causal text in bf16", text, text, DType::bf16},
                          {"a causal text, light statistics", text, text},
                          {"a causal text, full statistics", text, text},
                          {"a causal text, weights wanted", text, text},
                          {"one new token, 1024 keys", token, text},
                          {"short sequences in double", batch, batch, DType::f64}};
  for (std::size_t i = 1; i < 6; ++i) calls[i].options.causal = true;
  calls[3].wants.statistics = StatisticsSet::light;
  calls[4].wants.statistics = StatisticsSet::full;
  calls[5].wants.weights = true;
  return calls;
}

// What holds of the GPU for all of them is said above the table.
Table paths_table(Context& context, const std::string& cuda_reason) {
  Table table{.name = "paths", .columns = {{"call", "call"}, {"q", "q"}, {"k", "k"}, {"path", "path"}}, .rows = {}};
  for (const Call& call : typical_calls()) {
    const Tensor q = Tensor::zeros(call.q, call.dtype), k = Tensor::zeros(call.k, call.dtype);
    std::string path = explain(context, q, k, k, call.options, call.wants);
    if (const std::string gpu = "; " + cuda_reason; path.ends_with(gpu)) path.resize(path.size() - gpu.size());
    table.rows.push_back({call.name, describe(q), describe(k), path});
  }
  return table;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const Fields& fields, const Table& paths) {
  std::string text;
  for (const auto& [name, value] : fields) text += fmt::format("{:<17}  {}\n", name, wrapped(value, 19));
  text += "\nThe path that typical calls take\n";
  for (const auto& row : paths.rows) {
    text += fmt::format("  {}: q {}, k {}\n    {}\n", std::get<std::string>(row[0]), std::get<std::string>(row[1]),
                        std::get<std::string>(row[2]), wrapped(std::get<std::string>(row[3]), 4));
  }
  return text;
}

Report report_of() {
  const Info found = info();
  Context context;
  const std::int64_t threads = context.threads();
  const std::string cuda = found.cuda ? "yes; commands run on it with --device cuda" : found.cuda_reason;
  const std::string all = std::to_string(ranks().size());
  const std::string transport =
      ranks::available() ? ranks().size() > 1 ? ranks().transport() : ranks::library() : ranks::reason();
  const Fields fields{{"polyhead", found.version},
                      {"CPU", cpu_model()},
                      {"vector target", found.target},
                      {"targets available", fmt::format("{}", fmt::join(found.targets, ", "))},
                      {"threads", std::to_string(threads)},
                      {"CUDA", cuda},
                      {"ranks", all},
                      {"transport", transport}};
  const Table paths =
      paths_table(context, found.cuda ? "there is a GPU, but this context is not on it" : found.cuda_reason);
  return {.command = "info",
          .text = text_of(fields, paths),
          .fields = {{"version", found.version},
                     {"cpu", cpu_model()},
                     {"target", found.target},
                     {"targets", found.targets},
                     {"threads", threads},
                     {"cuda", found.cuda},
                     {"cuda_reason", found.cuda_reason},
                     {"ranks", static_cast<std::int64_t>(ranks().size())},
                     {"transport", transport}},
          .tables = {paths},
          .csv = paths};
}

}  // namespace

Command info_command() {
  auto format = std::make_shared<std::string>("table");
  return {
      .name = "info",
      .summary = "version, CPU, GPU, and which path calls take and why",
      .description =
          "Says which vector instructions the kernels use on this machine and which others they could "
          "use (POLYHEAD_TARGET picks one by name), how many threads there are, whether there is a GPU path and, if "
          "not, why, and which path typical calls take. Started by mpirun or srun, it also says how many ranks "
          "there are and how they communicate.",
      .examples = {{"polyhead info", "what this machine offers and what is used of it"},
                   {"polyhead info --format json", "the same for a script or a bug report"}},
      .options = {format_option(*format)},
      .run = [format] { print(report_of(), *format); },
      .on_ranks = true};
}

}  // namespace polyhead::cli
