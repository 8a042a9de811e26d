#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "exam/language.h"
#include "exam/reading.h"
#include "io/file.h"
#include "io/npy.h"
#include "model/checkpoint.h"
#include "model/families.h"
#include "model/memory.h"
#include "model/score.h"

namespace polyhead::cli {
namespace {

struct EmbedOptions {
  std::string model, text, out;
  DeviceChoice on;
  std::string format = "table";
};

constexpr std::size_t kMostText = std::size_t{1} << 28;
constexpr std::size_t kBatch = 32, kTokens = 4096;  // the most lines and tokens of a pass

using Lines = std::vector<std::vector<std::int32_t>>;

Lines read_lines(const EmbedOptions& o, const exam::Language& language, std::int64_t context) {
  Lines lines;
  std::istringstream text(io::read_file(o.text, kMostText));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const std::string where = fmt::format("{}:{}", o.text, lines.size() + 1);
    if (line.find_first_not_of(" \t") == line.npos) {
      throw Failure(Exit::input, where + ": expected a text on every line, found none");
    }
    try {
      lines.push_back(language.tokens_of(line));
    } catch (const Error& error) {
      throw Failure(Exit::input, where + ": " + error.what());
    }
    if (lines.back().empty()) throw Failure(Exit::input, where + ": expected a text, found nothing that is a token");
    if (std::ssize(lines.back()) > context) {
      throw Failure(Exit::input, fmt::format("{}: expected up to the model's {} tokens, found {}; shorten the line",
                                             where, context, lines.back().size()));
    }
  }
  if (lines.empty()) throw Failure(Exit::input, fmt::format("{}: expected a text on every line, found none", o.text));
  return lines;
}

// Lines [begin, end) as tokens [B,T], T of the longest.
Examples batch_of(const Lines& lines, std::size_t begin, std::size_t end) {
  std::size_t longest = 0;
  for (std::size_t n = begin; n < end; ++n) longest = std::max(longest, lines[n].size());
  const auto B = static_cast<std::int64_t>(end - begin), T = static_cast<std::int64_t>(longest);
  Examples some{Tensor::zeros({B, T}, DType::i32), {}, Tensor::empty({B}, DType::i32)};
  for (std::int64_t b = 0; b < B; ++b) {
    const std::vector<std::int32_t>& line = lines[begin + static_cast<std::size_t>(b)];
    std::copy(line.begin(), line.end(), some.tokens.as<std::int32_t>() + b * T);
    some.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(line.size());
  }
  return some;
}

// [N,C]
Tensor embeddings_of(Context& context, const model::Transformer& model, const Lines& lines) {
  const std::int64_t C = model.config().width;
  Tensor all = Tensor::empty({std::ssize(lines), C}, DType::f32);
  float* row = all.as<float>();
  Progress progress("embed", std::ssize(lines));
  std::vector<Examples> some(1);
  model::expect_memory("embed", model.config(), 0,
                       {.batch = 1, .tokens = static_cast<std::int64_t>(kTokens), .last_only = true});
  for (std::size_t begin = 0, end = 0; begin < lines.size(); begin = end) {
    std::size_t longest = 0;
    for (; end < lines.size() && end - begin < kBatch; ++end) {
      longest = std::max(longest, lines[end].size());
      if (end > begin && longest * (end - begin + 1) > kTokens) break;
    }
    some[0] = batch_of(lines, begin, end);
    for (const std::vector<double>& found : model::embeddings(context, model, some)) {
      model::expect_finite(found, fmt::format("the embedding of line {}", (row - all.as<float>()) / C + 1));
      row = std::transform(found.begin(), found.end(), row, [](double x) { return static_cast<float>(x); });
    }
    progress.update(static_cast<std::int64_t>(end), "");
  }
  return all;
}

void embed(const EmbedOptions& o) {
  if (o.model.empty()) throw Failure(Exit::usage, kNoModel);
  if (o.text.empty()) throw Failure(Exit::usage, "no texts given; name a file with one on every line: --text FILE");
  if (o.out.empty()) throw Failure(Exit::usage, "no output file given; name one, for example --out embeddings.npy");
  Context context = o.on.context();
  const std::unique_ptr<model::Transformer> model = model::load(o.model, context);
  if (model->config().kind != model::Kind::encoder) {
    throw Failure(Exit::input, fmt::format("{}: this model is not an encoder; use one of the families {}", o.model,
                                           model::names_of(model::kEncoders, " or ")));
  }
  const std::unique_ptr<exam::Language> language = exam::language_of(o.model, model->config());
  const Lines lines = read_lines(o, *language, model->config().context);
  io::write_npy(o.out, embeddings_of(context, *model, lines));
  Table table{
      .name = "lines", .columns = {{"line", "line", Style::count}, {"tokens", "tokens", Style::count}}, .rows = {}};
  for (std::size_t n = 0; n < lines.size(); ++n) {
    table.rows.push_back({static_cast<std::int64_t>(n) + 1, std::ssize(lines[n])});
  }
  const auto count = std::ssize(lines);
  print({.command = "embed",
         .text = fmt::format("{} line{} of {}: f32 [{},{}], written to {}\n", count, count == 1 ? "" : "s", o.text,
                             count, model->config().width, o.out),
         .fields = {{"model", o.model}, {"text", o.text}, {"out", o.out}, {"width", model->config().width}},
         .tables = {table},
         .csv = table},
        o.format);
}

}  // namespace

Command embed_command() {
  auto o = std::make_shared<EmbedOptions>();
  return {
      .name = "embed",
      .summary = "embeddings of texts by an encoder, as a NumPy array",
      .description =
          "Reads a file with a text on every line and writes an npy file, f32 [lines, width]. Each row is the mean of "
          "the last layer's output over the tokens of a line, including those that the tokenizer puts around a text. "
          "Compare two by the cosine of their angle. For encoders (" +
          model::names_of(model::kEncoders, " and ") + "), and what prune makes of them.",
      .examples = {{"polyhead embed minilm --text sentences.txt --out sentences.npy", "one row for every line"}},
      .options = {{"MODEL", "",
                   "a folder that Hugging Face's libraries or polyhead prune made, a .gguf file, or the name of a "
                   "fetched model",
                   &o->model},
                  {"text", "FILE", "the texts, one on every line", &o->text},
                  {"out", "FILE", "where the array goes", &o->out},
                  o->on.device_option(),
                  o->on.precision_option(),
                  o->on.threads_option(),
                  format_option(o->format)},
      .run = [o] { embed(*o); }};
}

}  // namespace polyhead::cli
