#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "exam/reading.h"
#include "model/checkpoint.h"
#include "model/families.h"
#include "model/memory.h"
#include "model/sample.h"
#include "text/speech.h"
#include "text/stream.h"
#include "train/plan.h"
#include "train/words.h"

namespace polyhead::cli {
namespace {

struct GenerateOptions {
  std::string model, prompt;
  std::optional<std::int64_t> tokens;
  std::optional<double> temperature;
  std::int64_t seed = 1, top_k = 0;
  double top_p = 1;
  std::vector<std::string> stop;
  bool chat = false;
  DeviceChoice on;
};

using Tokens = std::vector<std::int32_t>;

// What a model's tokens mean, and the defaults for prompt, length and temperature.
class Speaker {
 public:
  virtual ~Speaker() = default;
  virtual Tokens tokens_of(const std::string& prompt) const = 0;
  virtual Tokens chat_of(const std::string&) const {
    throw Failure(Exit::usage, "--chat: this model has no chat template; give it a text to continue, without --chat");
  }
  virtual std::string text_of(std::int32_t token) = 0;  // after earlier ones; parts of a character wait
  virtual std::string rest() { return ""; }             // what still waits
  virtual bool ends_with(std::int32_t /*token*/) const { return false; }
  virtual Tokens opening(std::uint64_t seed) const = 0;
  virtual std::int64_t length(const Tokens& prompt) const = 0;
  virtual double temperature() const = 0;
};

// On a terminal, control characters are written out.
std::string harmless(const std::string& text) {
  static const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (!terminal) return text;
  std::string shown;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    const bool control = (code < ' ' && byte != '\n' && byte != '\t') || code == 0x7f;
    shown += control ? fmt::format("\\x{:02x}", code) : std::string(1, byte);
  }
  return shown;
}

// Bytes as they are.
class Bytes final : public Speaker {
 public:
  Tokens tokens_of(const std::string& prompt) const override {
    Tokens tokens;
    for (const char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  std::string text_of(std::int32_t token) override { return harmless(std::string(1, static_cast<char>(token))); }
  Tokens opening(std::uint64_t) const override { return {'\n'}; }
  std::int64_t length(const Tokens&) const override { return 500; }
  double temperature() const override { return 0.8; }
};

// The words of a task, a space between them.
class Words final : public Speaker {
 public:
  explicit Words(std::unique_ptr<train::Task> task) : task_(std::move(task)) {}

  Tokens tokens_of(const std::string& prompt) const override {
    const train::Words words(*task_);
    return words.tokens_of(prompt, [&](const std::string& what) {
      throw Failure(Exit::usage, fmt::format("--prompt: {}; its words: {}", what, fmt::join(words.all(), " ")));
    });
  }
  std::string text_of(std::int32_t token) override { return task_->token_text(token) + ' '; }
  // A sequence that the model has not seen, up to where the answers begin.
  Tokens opening(std::uint64_t seed) const override {
    const train::Sequence sequence = task_->sequence(train::Split::validation, seed, 0);
    const auto counted =
        std::find_if(sequence.targets.begin(), sequence.targets.end(), [](std::int32_t t) { return t >= 0; });
    const auto length = std::min(counted - sequence.targets.begin() + 1, std::ssize(sequence.tokens));
    return {sequence.tokens.begin(), sequence.tokens.begin() + length};
  }
  std::int64_t length(const Tokens& prompt) const override {
    return std::max<std::int64_t>(task_->context() + 1 - std::ssize(prompt), 1);
  }
  double temperature() const override { return 0; }

 private:
  std::unique_ptr<train::Task> task_;
};

// Text as the model's own tokenizer reads and writes it.
class Tokenized final : public Speaker {
 public:
  Tokenized(const std::string& model, std::int64_t vocabulary)
      : speech_(text::load_speech(model)), stream_(speech_.tokenizer) {
    text::expect_fits(speech_.tokenizer, vocabulary, model);
  }

  Tokens tokens_of(const std::string& prompt) const override { return encoded(speech_.tokenizer.beginning(), prompt); }
  Tokens chat_of(const std::string& prompt) const override {
    return encoded({}, text::recognise(speech_.chat)->apply({{"user", prompt}}, true));
  }
  std::string text_of(std::int32_t token) override { return harmless(stream_.add(token)); }
  std::string rest() override { return harmless(stream_.finish()); }
  bool ends_with(std::int32_t token) const override {
    return std::find(speech_.ends.begin(), speech_.ends.end(), token) != speech_.ends.end();
  }
  Tokens opening(std::uint64_t) const override {
    throw Failure(Exit::usage, "no prompt given; write one with --prompt");
  }
  std::int64_t length(const Tokens&) const override { return 100; }
  double temperature() const override { return 0.8; }

 private:
  Tokens encoded(Tokens tokens, const std::string& text) const {
    for (const text::Token& token : speech_.tokenizer.encode(text, false)) tokens.push_back(token.id);
    return tokens;
  }

  text::Speech speech_;
  text::Stream stream_;
};

std::unique_ptr<Speaker> speaker_of(const std::string& folder, const model::Config& config) {
  if (config.kind == model::Kind::encoder) {
    throw Failure(Exit::input,
                  fmt::format("{}: this model is an encoder: it reads a text and cannot continue it; models of the "
                              "families {} can",
                              folder, model::names_of(model::kDecoders, " and ")));
  }
  if (exam::reads_text(folder)) return std::make_unique<Tokenized>(folder, config.vocabulary);
  if (config.kind != model::Kind::gpt) {
    throw Failure(Exit::input,
                  fmt::format("{}: this model is a classifier: it answers with a class and cannot continue a "
                              "text; models of the other tasks can",
                              folder));
  }
  const train::Plan plan = train::load_plan(folder);
  const bool bytes = plan.task.name == "text";
  std::unique_ptr<train::Task> task = bytes ? nullptr : train::make_task(plan.task);
  const std::int64_t vocabulary = bytes ? 256 : task->vocabulary();
  if (vocabulary != config.vocabulary) {
    throw Failure(Exit::input, fmt::format("{}: expected the {} tokens of the task {}, found a model of {}", folder,
                                           vocabulary, plan.task.name, config.vocabulary));
  }
  if (bytes) return std::make_unique<Bytes>();
  return std::make_unique<Words>(std::move(task));
}

void generate(const GenerateOptions& o) {
  if (o.model.empty()) throw Failure(Exit::usage, kNoModel);
  if (std::find(o.stop.begin(), o.stop.end(), "") != o.stop.end()) {
    throw Failure(Exit::usage, "--stop: expected a text, found none");
  }
  Context context = o.on.context();
  std::optional<Progress> loading(std::in_place, "loading " + o.model);
  const std::unique_ptr<model::Transformer> model = model::load(o.model, context);
  const std::unique_ptr<Speaker> speaker = speaker_of(o.model, model->config());
  loading.reset();
  const auto seed = static_cast<std::uint64_t>(o.seed);
  if (o.chat && o.prompt.empty()) throw Failure(Exit::usage, "--chat: no message given; write one with --prompt");
  Tokens tokens = o.chat ? speaker->chat_of(o.prompt) : speaker->tokens_of(o.prompt);
  if (tokens.empty()) tokens = speaker->opening(seed);
  const std::int64_t count = o.tokens.value_or(speaker->length(tokens));
  const std::int64_t context_length = model->config().context, read = std::ssize(tokens);
  if (read > context_length) {
    say(fmt::format("The prompt has {} tokens and the model has room for {}: it reads the last {}.\n", read,
                    context_length, context_length));
  }
  const std::int64_t longest = read + count > context_length ? context_length : read;  // beyond it all is read again
  model::expect_memory("generate", model->config(), 0,
                       {.tokens = longest, .last_only = true, .remembered = std::min(context_length, read + count)},
                       model::packed_bytes(*model));
  const Sampling sampling{
      .temperature = o.temperature.value_or(speaker->temperature()), .seed = seed, .top_k = o.top_k, .top_p = o.top_p};
  for (const std::int32_t token : tokens) {
    const std::string text = speaker->text_of(token);
    if (!o.chat) fmt::print("{}", text);
  }
  model::Generator generator(context, *model, {tokens}, sampling);
  text::Stops stops(o.stop);
  for (std::int64_t n = 0; n < count && !stops.found(); ++n) {
    std::fflush(stdout);
    const std::int32_t token = generator.next()[0];
    if (speaker->ends_with(token)) break;
    fmt::print("{}", stops.add(speaker->text_of(token)));
  }
  if (!stops.found()) fmt::print("{}", stops.add(speaker->rest()) + stops.finish());
  fmt::print("\n");
}

}  // namespace

Command generate_command() {
  auto o = std::make_shared<GenerateOptions>();
  return {
      .name = "generate",
      .summary = "continue a text with a trained model",
      .description =
          "Prints a prompt and how the model continues it. Models of a text take any prompt; models of a task take "
          "the task's words with spaces between them, and without a prompt they are given a sequence that they "
          "were not trained on, up to where the answers begin. Models of the families " +
          model::names_of(model::kDecoders, " and ") +
          ", in a folder as Hugging Face's libraries save them or in a GGUF "
          "file, come with a tokenizer, take any prompt and stop at their end token. --stop ends any of them earlier. "
          "Chat models answer with --chat: the prompt is put into the form of their chat template (those of ChatML, "
          "Llama 2 and 3, Gemma, Mistral, Zephyr and DeepSeek are known, others are refused), and only the answer is "
          "printed. The same seed gives the same text.",
      .examples = {{"polyhead generate run", "let the model answer a sequence it has not seen"},
                   {"polyhead generate run --prompt 'BOS a b c SEP'", "a prompt in the words of the task copy"},
                   {"polyhead generate book --prompt 'It was'", "continue a text"},
                   {"polyhead generate smollm2 --prompt 'It was' --temperature 0", "with a downloaded model"},
                   {"polyhead generate smollm2 --prompt 'It was' --stop . --stop '!'", "one sentence"},
                   {"polyhead generate smollm2 --chat --prompt 'Why is the sky blue?'", "an answer"}},
      .options = {{"MODEL", "",
                   "a folder that polyhead train or Hugging Face's libraries made, a .gguf file, or the name of a "
                   "fetched model",
                   &o->model},
                  {"prompt", "TEXT", "the text to continue", &o->prompt},
                  {"tokens",
                   "N",
                   "how many tokens to add; default: up to the end of the context of a task, 500 bytes of a text, 100 "
                   "tokens of a model that others trained",
                   &o->tokens,
                   {},
                   0,
                   1'000'000'000},
                  {"chat", "", "answer the prompt, in the form of the model's chat template", &o->chat},
                  {"stop", "TEXT", "end before this text; may be given several times", &o->stop},
                  {"temperature",
                   "X",
                   "0 takes the likeliest token, higher is bolder; default: 0.8 for texts, 0 for tasks",
                   &o->temperature,
                   {},
                   0,
                   1000},
                  {"top-k", "N", "draw from the N likeliest tokens only; 0: from all", &o->top_k, {}, 0, INT32_MAX},
                  {.name = "top-p",
                   .value = "X",
                   .help = "draw from the likeliest tokens only, as few as together reach this probability",
                   .target = &o->top_p,
                   .least = 0,
                   .most = 1,
                   .above = true},
                  {"seed",
                   "N",
                   "seed of the draws, and of the sequence if there is no prompt",
                   &o->seed,
                   {},
                   0,
                   std::int64_t{1} << 53},
                  o->on.device_option(),
                  o->on.precision_option(),
                  o->on.threads_option()},
      .run = [o] { generate(*o); }};
}

}  // namespace polyhead::cli
