#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cli/progress.h"
#include "cli/report.h"
#include "core/suggest.h"
#include "io/file.h"
#include "io/npy.h"
#include "model/family.h"
#include "text/tokenizer.h"

namespace polyhead::cli {
namespace {

using io::Json;
using Listed = io::ListedWeights::Listed;

struct InspectOptions {
  std::string model, tensor, out, format = "table";
};

// What files call the sizes of a model: config.json of several families, and GGUF after the architecture's name.
struct Size {
  std::string name;
  std::vector<std::string> in_config;
  std::string in_gguf;
};
const std::vector<Size> kSizes{
    {"layers", {"num_hidden_layers", "n_layer", "n_layers"}, "block_count"},
    {"width", {"hidden_size", "n_embd", "dim", "width"}, "embedding_length"},
    {"heads", {"num_attention_heads", "n_head", "n_heads", "heads"}, "attention.head_count"},
    {"kv_heads", {"num_key_value_heads", "kv_heads"}, "attention.head_count_kv"},
    {"head_dim", {"head_dim"}, "attention.key_length"},
    {"hidden", {"intermediate_size", "n_inner", "hidden_dim", "hidden"}, "feed_forward_length"},
    {"context", {"max_position_embeddings", "n_positions", "context"}, "context_length"},
    {"vocabulary", {"vocab_size", "vocabulary"}, "vocab_size"}};

struct Findings {
  io::ListedWeights weights;
  std::string architecture;
  std::map<std::string, std::int64_t> sizes;
  std::optional<std::int64_t> tokens;  // of the tokenizer
  std::vector<std::string> problems;

  std::int64_t parameters() const {
    std::int64_t count = 0;
    for (const Listed& listed : weights.tensors) count += count_of(listed.tensor.shape);
    return count;
  }
  std::int64_t bytes() const {
    std::uint64_t count = 0;
    for (const Listed& listed : weights.tensors) count += listed.tensor.bytes;
    return static_cast<std::int64_t>(count);
  }
  // On the CPU, where matrices of 16 bits and of blocks stay as they are.
  std::int64_t loaded_bytes() const {
    return static_cast<std::int64_t>(model::loaded_bytes(weights, {.halves = true, .blocks = true}));
  }
};

// A size that differs by layer is left out: the tensors show it.
void take_size(Findings& found, const std::string& name, const Json& object, const std::string& key) {
  const auto value = object.find(key);
  if (value == object.end() || !value->is_number_integer() || found.sizes.contains(name)) return;
  found.sizes[name] = value->get<std::int64_t>();
}

void look_at_config(Findings& found) {
  const std::filesystem::path path = found.weights.where.parent_path() / "config.json";
  if (!io::is_there(path)) {
    found.problems.push_back(path.string() + ": there is none, so nothing says what model this is");
    return;
  }
  const Json config = io::parse_json(io::read_file(path, 1 << 24), path.string());
  found.architecture = io::read_text(config, "model_type", path.string());
  for (const Size& size : kSizes) {
    for (const std::string& key : size.in_config) take_size(found, size.name, config, key);
  }
}

void look_at_metadata(Findings& found) {
  const Json& metadata = found.weights.metadata;
  found.architecture = io::read_text(metadata, "general.architecture", found.weights.where.string());
  for (const Size& size : kSizes) take_size(found, size.name, metadata, found.architecture + "." + size.in_gguf);
}

// A file may lack a tokenizer; if it has one, it must be usable.
void look_at_tokenizer(Findings& found) {
  const std::filesystem::path beside = found.weights.where.parent_path() / "tokenizer.json";
  const bool in_gguf = found.weights.metadata.contains("tokenizer.ggml.model");
  if (in_gguf) {
    found.tokens = text::tokenizer_from_gguf(found.weights.metadata, found.weights.where.string()).size();
  } else if (io::is_there(beside)) {
    found.tokens = text::load_tokenizer(beside).size();
  }
}

void hold_sizes_together(Findings& found) {
  const auto size = [&](const char* name) {
    const auto at = found.sizes.find(name);
    return at == found.sizes.end() ? std::int64_t{0} : at->second;
  };
  for (const auto& [name, value] : found.sizes) {
    if (value < 1) found.problems.push_back(fmt::format("{}: expected 1 or more, found {}", name, value));
  }
  const std::int64_t heads = size("heads"), kv_heads = size("kv_heads"), width = size("width");
  if (heads > 0 && size("head_dim") == 0 && width % heads != 0) {
    found.problems.push_back(fmt::format("a width of {} does not divide into {} heads", width, heads));
  }
  if (heads > 0 && kv_heads > 0 && heads % kv_heads != 0) {
    found.problems.push_back(fmt::format("{} heads do not divide among {} kv heads", heads, kv_heads));
  }
  if (found.tokens && size("vocabulary") > 0 && *found.tokens > size("vocabulary")) {
    found.problems.push_back(fmt::format("the tokenizer has numbers up to {}, and the model a vocabulary of {}",
                                         *found.tokens - 1, size("vocabulary")));
  }
}

// Checks family, config and tensors together, as loading does. Models that polyhead wrote are checked when loaded.
void look_at_family(Findings& found) {
  if (found.architecture.empty() || found.architecture.starts_with("polyhead-")) return;
  model::check_foreign(found.weights);
}

// Wide holds every Number exactly.
template <class Number, class Wide>
std::int64_t not_finite(const Tensor& tensor) {
  const Number* numbers = tensor.as<Number>();
  return std::count_if(numbers, numbers + count_of(tensor.shape()),
                       [](Number x) { return !std::isfinite(static_cast<Wide>(x)); });
}

// One tensor at a time, so that a model need not fit in memory.
void look_at_numbers(Findings& found) {
  Progress progress("tensors", std::ssize(found.weights.tensors));
  std::int64_t done = 0;
  for (const Listed& listed : found.weights.tensors) {
    progress.update(done++, listed.tensor.name);
    const Tensor tensor = io::read_weight(listed);
    std::int64_t bad = 0;
    switch (tensor.dtype()) {
      case DType::f64: bad = not_finite<double, double>(tensor); break;
      case DType::f32: bad = not_finite<float, float>(tensor); break;
      case DType::f16: bad = not_finite<float16, float>(tensor); break;
      case DType::bf16: bad = not_finite<bfloat16, float>(tensor); break;
      default: break;
    }
    if (bad == 0) continue;
    found.problems.push_back(fmt::format("tensor {}: infinite or NaN in {} of its {} values",
                                         io::in_quotes(listed.tensor.name), bad, count_of(tensor.shape())));
  }
}

// An error in one check does not prevent the others.
template <class Look>
void try_to(Findings& found, const Look& look) {
  try {
    look(found);
  } catch (const Error& error) {
    found.problems.emplace_back(plain(error));
  }
}

Findings inspect(const std::string& model) {
  Findings found{.weights = io::list_weights(model), .architecture = {}, .sizes = {}, .tokens = {}, .problems = {}};
  const bool gguf = !found.weights.metadata.is_null();
  try_to(found, gguf ? look_at_metadata : look_at_config);
  try_to(found, look_at_tokenizer);
  hold_sizes_together(found);
  try_to(found, look_at_family);
  try_to(found, look_at_numbers);
  return found;
}

Table tensors_of(const Findings& found) {
  Table table{.name = "tensors",
              .columns = {{"name", "tensor"},
                          {"format", "type"},
                          {"shape", "shape"},
                          {"parameters", "parameters", Style::count, 1},
                          {"bytes", "bytes", Style::count}},
              .rows = {}};
  for (const auto& [file, tensor] : found.weights.tensors) {
    table.rows.push_back({tensor.name, tensor.format, to_string(tensor.shape), count_of(tensor.shape),
                          static_cast<std::int64_t>(tensor.bytes)});
  }
  return table;
}

std::string text_of(const Findings& found, const Table& tensors) {
  std::string text = cli::text_of(tensors) + "\n";
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{:<14}{}\n", name, value);
  };
  line("file", found.weights.where.string());
  line("format", found.weights.format);
  if (!found.architecture.empty()) line("architecture", found.architecture);
  for (const Size& size : kSizes) {
    if (found.sizes.contains(size.name)) line(size.name, cli::text_of(found.sizes.at(size.name), Style::count));
  }
  if (found.tokens) line("tokenizer", cli::text_of(*found.tokens, Style::count) + " tokens");
  line("parameters", cli::text_of(found.parameters(), Style::count));
  line("bytes", cli::text_of(found.bytes(), Style::count));
  line("in memory", "about " + cli::text_of(found.loaded_bytes(), Style::count) + " bytes once loaded");
  for (const std::string& problem : found.problems) line("problem", wrapped(problem, 14));
  return text;
}

Report report_of(const Findings& found) {
  const Table tensors = tensors_of(found);
  Report report{.command = "inspect",
                .text = text_of(found, tensors),
                .fields = {{"file", found.weights.where.string()},
                           {"format", found.weights.format},
                           {"architecture", found.architecture}},
                .tables = {tensors},
                .csv = tensors};
  for (const auto& [name, value] : found.sizes) report.fields.emplace_back(name, value);
  if (found.tokens) report.fields.emplace_back("tokens", *found.tokens);
  report.fields.emplace_back("parameters", found.parameters());
  report.fields.emplace_back("bytes", found.bytes());
  report.fields.emplace_back("loaded_bytes", found.loaded_bytes());
  report.fields.emplace_back("problems", found.problems);
  return report;
}

void save_tensor(const InspectOptions& o) {
  const io::ListedWeights weights = io::list_weights(o.model);
  std::vector<std::string> names;
  for (const Listed& listed : weights.tensors) {
    if (listed.tensor.name == o.tensor) return io::write_npy(o.out, io::read_weight(listed));
    names.push_back(listed.tensor.name);
  }
  throw Failure(Exit::input, fmt::format("{}: no tensor {}{}", weights.where.string(), io::in_quotes(o.tensor),
                                         did_you_mean(o.tensor, names)));
}

void run(const InspectOptions& o) {
  if (o.model.empty())
    throw Failure(
        Exit::usage,
        "no model given; name a .gguf or .safetensors file, a folder with one, or a model that 'polyhead get' fetches");
  if (o.tensor.empty() != o.out.empty()) {
    throw Failure(Exit::usage, "--tensor and --out go together: which tensor, and the npy file to write it to");
  }
  if (!o.tensor.empty()) return save_tensor(o);
  const Findings found = inspect(o.model);
  print(report_of(found), o.format);
  if (!found.problems.empty()) {
    throw Failure(Exit::input, fmt::format("{}: {} problem{}", o.model, found.problems.size(),
                                           found.problems.size() == 1 ? "" : "s"));
  }
}

}  // namespace

Command inspect_command() {
  auto o = std::make_shared<InspectOptions>();
  return {
      .name = "inspect",
      .summary = "what a model's files hold, before anything is loaded",
      .description =
          "Lists the tensors of a GGUF file, a safetensors file or a folder with shards: type, shape, parameters and "
          "bytes; then what the file or its config.json says of the model, its tokenizer, and the memory that the "
          "weights take once they are loaded: on the CPU, matrices in 16 bits or in quantised blocks stay as they "
          "are, and everything else becomes f32. Every number is read once, a tensor at a time. What is wrong (a "
          "family that polyhead does not run, tensors that are missing or do not fit the config, a tokenizer that "
          "cannot be used, numbers that are infinite or NaN) is listed at the end, and makes the command fail with "
          "code 3. One tensor, its blocks widened to f32, can be written to an npy file.",
      .examples = {{"polyhead inspect smollm2", "tensors, sizes, tokenizer, and what is wrong"},
                   {"polyhead inspect minilm --format json", "the same for a program"},
                   {"polyhead inspect smollm2 --tensor token_embd.weight --out embedding.npy", "one tensor for NumPy"}},
      .options = {{"MODEL", "", "a .gguf or .safetensors file, a folder with one, or the name of a fetched model",
                   &o->model},
                  {"tensor", "NAME", "write this tensor", &o->tensor},
                  {"out", "FILE", "the npy file that it is written to", &o->out},
                  format_option(o->format)},
      .run = [o] { run(*o); }};
}

}  // namespace polyhead::cli
