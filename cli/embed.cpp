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
    if (line.find_first_not_of(" \t\r") == line.npos) line.clear();
    if (line.ends_with('\r')) line.pop_back();
    const std::string where = fmt::format("{}:{}", o.text, lines.size() + 1);
    try {
      lines.push_back(language.tokens_of(line));
    } catch (const Error& error) {
      throw Failure(Exit::input, where + ": " + plain(error));
    }
    if (std::ssize(lines.back()) > context) {
      throw Failure(Exit::input, fmt::format("{}: expected up to the model's {} tokens, found {}; shorten the line",
                                             where, context, lines.back().size()));
    }
  }
  if (lines.empty()) throw Failure(Exit::input, fmt::format("{}: expected a text on every line, found none", o.text));
  return lines;
}

// These lines as tokens [B,T], T of the longest.
Examples batch_of(const Lines& lines, const std::vector<std::size_t>& which) {
  std::size_t longest = 0;
  for (const std::size_t n : which) longest = std::max(longest, lines[n].size());
  const auto B = std::ssize(which), T = static_cast<std::int64_t>(longest);
  Examples some{Tensor::zeros({B, T}, DType::i32), {}, Tensor::empty({B}, DType::i32)};
  for (std::int64_t b = 0; b < B; ++b) {
    const std::vector<std::int32_t>& line = lines[which[static_cast<std::size_t>(b)]];
    std::copy(line.begin(), line.end(), some.tokens.as<std::int32_t>() + b * T);
    some.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(line.size());
  }
  return some;
}

// [N,C]; a line without a token has a row of zeros.
Tensor embeddings_of(Context& context, const model::Transformer& model, const Lines& lines) {
  const std::int64_t C = model.config().width;
  Tensor all = Tensor::zeros({std::ssize(lines), C}, DType::f32);
  Progress progress("embed", std::ssize(lines));
  std::vector<Examples> some(1);
  model::expect_memory("embed", model.config(), 0,
                       {.batch = 1, .tokens = static_cast<std::int64_t>(kTokens), .last_only = true});
  for (std::size_t end = 0; end < lines.size();) {
    std::size_t longest = 0;
    std::vector<std::size_t> which;
    for (; end < lines.size() && which.size() < kBatch; ++end) {
      longest = std::max(longest, lines[end].size());
      if (!which.empty() && longest * (which.size() + 1) > kTokens) break;
      if (!lines[end].empty()) which.push_back(end);
    }
    if (which.empty()) break;
    some[0] = batch_of(lines, which);
    const std::vector<std::vector<double>> found = model::embeddings(context, model, some);
    for (std::size_t n = 0; n < found.size(); ++n) {
      model::expect_finite(found[n], fmt::format("the embedding of line {}", which[n] + 1));
      std::transform(found[n].begin(), found[n].end(), all.as<float>() + static_cast<std::int64_t>(which[n]) * C,
                     [](double x) { return static_cast<float>(x); });
    }
    progress.update(static_cast<std::int64_t>(end), "");
  }
  return all;
}

void embed(const EmbedOptions& o) {
  if (o.model.empty()) throw Failure(Exit::usage, kNoModel);
  if (o.text.empty()) throw Failure(Exit::usage, "no texts given; name a file with one on every line: --text FILE");
  if (o.out.empty()) throw Failure(Exit::usage, "no output file given; name one, for example --out embeddings.npy");
  io::expect_writable(o.out);
  Context context = o.on.context();
  std::optional<Progress> loading(std::in_place, "loading " + o.model);
  const std::unique_ptr<model::Transformer> model = model::load(o.model, context);
  loading.reset();
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
  const auto count = std::ssize(lines),
             without = std::count_if(lines.begin(), lines.end(), [](const auto&line) { return line.empty(); });
  print({.command = "embed",
         .text = fmt::format("{} line{} of {}: f32 [{},{}], written to {}{}\n", count, count == 1 ? "" : "s", o.text,
                             count, model->config().width, o.out,
                             without == 0 ? "" : fmt::format("; {} without a token, as zeros", without)),
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
          "the last layer's output over the tokens of a line, including those that the tokenizer puts around a text; a "
          "blank line has a row, too, of zeros if no token is left. "
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
