#include "cli/subject.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/progress.h"
#include "cli/say.h"
#include "heads/sinks.h"
#include "io/file.h"

namespace polyhead::cli {
namespace {

constexpr std::int64_t kTaskSamples = 256, kTextSamples = 16;
constexpr std::int64_t kTokensAtOnce = 512;  // of a text: models of others, and their vocabularies, may be large

}  // namespace

Option SubjectChoice::model_option(const std::string& name) {
  return {name, "",
          "a folder that polyhead train, prune or Hugging Face's libraries made, a .gguf file, or the name of a "
          "fetched model",
          &model};
}

Option SubjectChoice::samples_option() {
  return {
      "samples",
      "N",
      fmt::format("sequences to rank by, and as many others to judge by and to report on; default: {} of a task, {} "
                  "windows of a text, or as many as it has",
                  kTaskSamples, kTextSamples),
      &samples,
      {},
      2,
      100'000};
}

std::vector<Option> SubjectChoice::text_options() {
  return {{"text", "FILE", "the text to examine the model on, unless polyhead trained it on a task", &text},
          {"length", "N", "tokens in a window of that text, up to what the model's context holds", &length, {}, 2},
          {"file", "FILE", "where the text that polyhead trained the model on is now", &file}};
}

void SubjectChoice::expect_model() const {
  if (model.empty()) throw Failure(Exit::usage, kNoModel);
}

exam::Subject SubjectChoice::load(const Context& context) const {
  const Progress progress("loading " + model);
  if (exam::reads_text(model)) {
    if (!text.empty()) return exam::load_reader(context, model, text);
    throw Failure(Exit::usage, fmt::format("{}: this model has a tokenizer and no task; name a text to examine it "
                                           "on, for example --text README.md",
                                           model));
  }
  const bool trained = io::is_folder(model) && io::is_there(std::filesystem::path(model) / train::kPlanFile);
  if (text.empty() || !trained) return exam::load_subject(context, model, file);  // which also says what is missing
  throw Failure(Exit::usage, fmt::format("--text: {} is examined on the task that polyhead trained it on; if the text "
                                         "of that task was moved, name it with --file",
                                         model));
}

std::int64_t SubjectChoice::sample_count(const exam::Subject& subject) const {
  if (samples) return *samples;
  if (subject.task != nullptr) return kTaskSamples;
  const std::int64_t there =
      exam::windows_in_a_part(subject.reading, std::min(length, subject.model->config().context));
  return std::clamp<std::int64_t>(there, 2, kTextSamples);
}

std::int64_t window_length(std::int64_t asked, const model::Config& config) {
  const std::int64_t fits = std::min(asked, config.context);
  if (fits < asked)
    say(fmt::format("The model has room for {} tokens, so windows have {}, not {}.\n", fits, fits, asked));
  return fits;
}

std::int64_t windows_at_once(std::int64_t length) { return std::max<std::int64_t>(kTokensAtOnce / length, 1); }

exam::Material SubjectChoice::material(const exam::Subject& subject) const {
  const Progress progress("sequences");
  exam::MaterialOptions options{.samples = sample_count(subject), .seed = static_cast<std::uint64_t>(seed)};
  if (subject.task != nullptr) return exam::make_material(*subject.task, options);
  const std::int64_t fits = window_length(length, subject.model->config());
  options.batch = windows_at_once(fits);
  if (seed != 1 && exam::windows_in_a_part(subject.reading, fits) == options.samples) {
    say(fmt::format("The text has only {} windows of {} tokens to rank by: every seed reads the same ones.\n",
                    options.samples, fits));
  }
  options.sinks =
      subject.model->config().kind == model::Kind::gpt && subject.model->config().context >= heads::kSinkTokens;
  return exam::make_material(subject.reading, fits, options);
}

}  // namespace polyhead::cli
