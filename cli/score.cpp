#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/subject.h"
#include "exam/material.h"
#include "io/file.h"
#include "model/checkpoint.h"
#include "model/memory.h"
#include "train/plan.h"

namespace polyhead::cli {
namespace {

struct ScoreOptions {
  std::string model, text;
  std::int64_t length = 512;
  DeviceChoice on;
  std::string format = "table";
};

constexpr std::size_t kMostBytes = std::size_t{1} << 28;

// Sums over the targets of all windows.
struct Sums {
  double loss = 0;
  std::int64_t right = 0, targets = 0;

  void add(const model::SequenceScores& scores) {
    for (std::size_t n = 0; n < scores.losses.size(); ++n) {
      loss += scores.losses[n] * static_cast<double>(scores.counts[n]);
      right += scores.right[n];
      targets += scores.counts[n];
    }
  }
  double mean(double sum) const { return sum / static_cast<double>(targets); }
};

// The text as the model reads it: with its tokenizer, or byte by byte if polyhead trained it on bytes.
exam::Reading read(const ScoreOptions& o, const model::Config& config) {
  if (exam::reads_text(o.model)) return exam::read_text(o.model, o.text, config);
  const train::Plan plan = train::load_plan(o.model);
  if (plan.task.name != "text") {
    throw Failure(Exit::input,
                  fmt::format("{}: polyhead trained this model on the task {}, which is not a text; 'polyhead "
                              "heads' says how well it does",
                              o.model, plan.task.name));
  }
  exam::Reading reading;
  reading.vocabulary = config.vocabulary;
  for (const char byte : io::read_file(o.text, kMostBytes)) reading.tokens.push_back(static_cast<unsigned char>(byte));
  reading.bytes = std::ssize(reading.tokens);
  return reading;
}

void expect_asked(const ScoreOptions& o) {
  if (o.model.empty()) throw Failure(Exit::usage, kNoModel);
  if (o.text.empty()) throw Failure(Exit::usage, "no text given; name a file, for example --text README.md");
}

void expect_language_model(const ScoreOptions& o, const model::Config& config) {
  if (config.kind == model::Kind::gpt) return;
  throw Failure(Exit::input,
                config.kind == model::Kind::encoder
                    ? fmt::format("{}: this model is an encoder, which does not predict the next token; 'polyhead "
                                  "embed' writes its embeddings",
                                  o.model)
                    : fmt::format("{}: this model is a classifier, which does not predict the next token", o.model));
}

Report report_of(const ScoreOptions& o, std::int64_t length, std::int64_t windows, const Sums& sums,
                 std::int64_t bytes) {
  const double loss = sums.mean(sums.loss), accuracy = sums.mean(static_cast<double>(sums.right));
  const double bits = sums.loss / std::numbers::ln2 / static_cast<double>(bytes);
  const Table table{.name = "scores",
                    .columns = {{"targets", "tokens", Style::count},
                                {"loss", "loss", Style::decimal},
                                {"perplexity", "perplexity", Style::decimal},
                                {"bits_per_byte", "bits per byte", Style::decimal},
                                {"accuracy", "accuracy", Style::percent}},
                    .rows = {{sums.targets, loss, std::exp(loss), bits, accuracy}}};
  return {.command = "score",
          .text = fmt::format("{} on {}, {} window{} of up to {} tokens\n\n", o.model, o.text, windows,
                              windows == 1 ? "" : "s", length) +
                  text_of(table) +
                  "\nLoss: nats per token. Accuracy: how often the likeliest token is the right one.\n",
          .fields = {{"model", o.model}, {"text", o.text}, {"length", length}, {"windows", windows}},
          .tables = {table},
          .csv = table};
}

void score(const ScoreOptions& o) {
  expect_asked(o);
  Context context = o.on.context();
  std::optional<Progress> progress(std::in_place, "loading " + o.model);
  const std::unique_ptr<model::Transformer> model = model::load(o.model, context);
  expect_language_model(o, model->config());
  const exam::Reading reading = read(o, model->config());
  const std::int64_t length = window_length(o.length, model->config()), batch = windows_at_once(length);
  std::vector<Examples> windows = exam::all_windows(reading, length, batch);
  if (windows.empty()) {
    throw Failure(Exit::input,
                  fmt::format("{}: expected a text of two tokens or more, found {}", o.text, reading.tokens.size()));
  }
  model::expect_memory("score", model->config(), 0, {.batch = batch, .tokens = length, .last_only = true});
  progress.emplace("score", std::ssize(windows));
  Sums sums;
  std::int64_t done = 0, count = 0;
  std::vector<Examples> some(1);
  const Signals signals;
  for (Examples& window : windows) {
    if (done > 0 && Signals::noted() != 0) break;
    count += window.tokens.shape()[0];
    some[0] = std::move(window);
    const model::SequenceScores scores = model::score(context, *model, some);
    scores.expect_finite("the model");
    sums.add(scores);
    progress->update(++done, fmt::format("perplexity {:.2f}", std::exp(sums.mean(sums.loss))));
  }
  progress.reset();
  // Of a text that was not read to its end, as large a part of the bytes as of the tokens.
  const bool all = done == std::ssize(windows);
  const std::int64_t bytes = all ? reading.bytes : reading.bytes * sums.targets / std::ssize(reading.tokens);
  print(report_of(o, length, count, sums, bytes), o.format);
  if (!all) {
    Signals::end_if_noted(fmt::format("stopped: these are the first {} of {} tokens",
                                      text_of(sums.targets, Style::count),
                                      text_of(std::ssize(reading.tokens), Style::count)));
  }
}

}  // namespace

Command score_command() {
  auto o = std::make_shared<ScoreOptions>();
  return {.name = "score",
          .summary = "how well a language model predicts a text: loss and perplexity",
          .description =
              "Reads a whole text in adjacent windows, each of which begins with what the tokenizer puts "
              "before a text, and says how well the model predicts every token from those before it in its window: "
              "the mean loss in nats, perplexity (e to the power of it), bits per byte of the text, by which models "
              "with different tokenizers can be compared, and how often the likeliest token is the right one. For "
              "language models that come with a tokenizer, and those that polyhead trained on a text.",
          .examples = {{"polyhead score smollm2 --text book.txt", "the perplexity of a downloaded model"},
                       {"polyhead score smollm2 --text book.txt --length 1024", "in windows of 1,024 tokens"},
                       {"polyhead score book --text other.txt --format json", "for a program"}},
          .options = {{"MODEL", "",
                       "a folder that polyhead train, prune or Hugging Face's libraries made, a .gguf file, or the "
                       "name of a fetched model",
                       &o->model},
                      {"text", "FILE", "the text", &o->text},
                      {"length", "N", "tokens in a window, up to what the model's context holds", &o->length, {}, 2},
                      o->on.device_option(),
                      o->on.precision_option(),
                      o->on.threads_option(),
                      format_option(o->format)},
          .run = [o] { score(*o); }};
}

}  // namespace polyhead::cli
