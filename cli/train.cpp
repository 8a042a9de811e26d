#include "cli/train.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/rank_grid.h"
#include "cli/ranks.h"
#include "cli/say.h"
#include "cli/signals.h"

namespace polyhead::cli {
namespace {

struct TrainOptions {
  std::string task, out, file, norm, positions;
  std::optional<std::int64_t> layers, width, heads, kv_heads, context, steps, batch, warmup, seed, save_every, parts;
  std::optional<double> rate, decay, dropout;
  std::optional<bool> feed_forward, bias;
  DeviceChoice on;
  GridChoice grid;
  bool force = false, resume = false;
  std::string format = "table";
};

template <class Choice>
void choose(const std::string& word, Choice& choice) {
  const std::vector<std::string> words = model::words_of<Choice>();
  if (!word.empty()) choice = static_cast<Choice>(std::find(words.begin(), words.end(), word) - words.begin());
}

template <class Given, class Field>
void set(const std::optional<Given>& given, Field& field) {
  if (given) field = static_cast<Field>(*given);
}

model::Config model_of(const TrainOptions& o, const model::Config& own) {
  const auto layers = o.layers.value_or(std::ssize(own.layers));
  model::Config config =
      model::make_config(own.kind, layers, o.width.value_or(own.width), o.heads.value_or(own.layers[0].heads));
  config.feed_forward = own.feed_forward;
  for (model::LayerHeads& layer : config.layers) set(o.kv_heads, layer.kv_heads);
  choose(o.norm, config.norm);
  choose(o.positions, config.positions);
  if (o.feed_forward) config.feed_forward = *o.feed_forward ? model::FeedForward::gelu : model::FeedForward::none;
  set(o.bias, config.bias);
  set(o.dropout, config.dropout);
  return config;
}

constexpr std::int64_t kParts = 16;  // of a batch, on ranks: enough for a few, and few enough to keep products large

train::Plan plan_of(const TrainOptions& o, bool shares_parts) {
  train::Plan plan = train::plan_for(o.task);
  plan.model = model_of(o, plan.model);
  plan.file = o.file;
  set(o.context, plan.task.context);
  set(o.seed, plan.task.seed);
  set(o.seed, plan.training.seed);
  set(o.steps, plan.training.steps);
  set(o.batch, plan.training.batch);
  plan.training.parts = o.parts.value_or(shares_parts ? std::min(kParts, plan.training.batch) : 1);
  set(o.rate, plan.training.rate);
  set(o.decay, plan.training.decay);
  plan.training.warmup = o.warmup.value_or(std::min(plan.training.warmup, plan.training.steps / 10));
  set(o.save_every, plan.save_every);
  return plan;
}

[[noreturn]] void misused(const std::string& what) { throw Failure(Exit::usage, what); }

void check_start(const TrainOptions& o) {
  if (o.task.empty()) misused("which task? For example: polyhead train copy --out run");
  if (o.task == "text" && o.file.empty())
    misused("the task text needs a file: polyhead train text --file FILE --out run");
  if (o.task != "text" && !o.file.empty()) misused(fmt::format("--file is for the task text, not for {}", o.task));
  if (o.force || ranks().rank() > 0 || !io::is_folder(o.out) ||
      !io::is_there(std::filesystem::path(o.out) / train::kPlanFile))
    return;
  throw Failure(Exit::input,
                fmt::format("{}: there is a run in this folder; --resume continues it, --force starts over", o.out));
}

// A run keeps its plan, except for what `Changes` holds.
void check_resume(const TrainOptions& o) {
  if (o.force) misused("--resume continues a run and --force starts over: choose one");
  const std::pair<bool, const char*> fixed[] = {
      {o.layers.has_value(), "layers"},    {o.width.has_value(), "width"},
      {o.heads.has_value(), "heads"},      {o.kv_heads.has_value(), "kv-heads"},
      {o.context.has_value(), "context"},  {o.batch.has_value(), "batch"},
      {o.warmup.has_value(), "warmup"},    {o.seed.has_value(), "seed"},
      {o.rate.has_value(), "rate"},        {o.decay.has_value(), "decay"},
      {o.dropout.has_value(), "dropout"},  {o.feed_forward.has_value(), "feed-forward"},
      {o.bias.has_value(), "bias"},        {!o.norm.empty(), "norm"},
      {!o.positions.empty(), "positions"}, {o.parts.has_value(), "parts"}};
  for (const auto& [given, name] : fixed) {
    if (given)
      misused(
          fmt::format("--{}: a run that is resumed keeps its plan; only --steps, --save-every, --device, "
                      "--precision, --threads, --ranks and the place of --file may change",
                      name));
  }
}

void check(const TrainOptions& o) {
  if (o.out.empty()) misused("no output folder given; name one, for example --out run");
  if (!o.resume) return check_start(o);
  check_resume(o);
  const std::string task = train::load_plan(o.out).task.name;
  if (!o.task.empty() && o.task != task) misused(fmt::format("{} is a run of {}, not of {}", o.out, task, o.task));
}

// Ranks that share every pass. Which are chosen must have no say in the bits, so then there are parts in any case.
int heads_of(const TrainOptions& o, std::string& why) {
  if (!o.grid.chooses() || ranks().size() == 1) return o.grid.chooses() ? 1 : o.grid.heads(ranks().size());
  train::Plan plan = o.resume ? train::load_plan(o.out) : plan_of(o, true);
  if (!o.resume) train::fit_to_task(plan.model, *train::task_of(plan));
  model::check(plan.model);
  return best_heads(
      {.config = plan.model, .batch = plan.training.batch, .tokens = plan.model.context, .parts = plan.training.parts},
      ranks().size(), why);
}

std::unique_ptr<train::Run> run_of(const TrainOptions& o, Context& context, const train::RankGrid& grid) {
  if (!o.resume) {
    const Progress progress("making the model");
    train::Plan plan;
    const bool chosen = o.grid.chooses() && ranks().size() > 1;
    together(ranks(), [&] { plan = plan_of(o, chosen || grid.data().size() > 1); });
    return train::Run::start(context, std::move(plan), o.out, o.force, grid);
  }
  std::optional<Progress> progress(std::in_place, "loading " + o.out);
  const train::Changes changes{.steps = o.steps, .save_every = o.save_every, .file = o.file};
  auto run = train::Run::resume(context, o.out, changes, grid);
  progress.reset();
  if (const std::string target = train::target_of(context); run->plan().target != target) {
    say(fmt::format("note: this run started on {} and continues on {}: the last bits will differ\n", run->plan().target,
                    target));
  }
  return run;
}

// "run: copy, 106,304 parameters, 600 steps, seed 1"
void announce(const train::Run& run, const train::RankGrid& grid) {
  const train::TrainOptions& training = run.plan().training;
  const std::string from = run.steps_taken() > 0 ? fmt::format(" from step {}", run.steps_taken()) : "";
  std::string on = ranks().size() > 1 ? fmt::format(", on {} ranks", ranks().size()) : "";
  if (grid.heads().size() > 1) on += fmt::format(" (data={},heads={})", grid.data().size(), grid.heads().size());
  say(fmt::format("{}: {}, {} parameters, {} steps{}, seed {}{}\n", run.folder().string(), run.task().name(),
                  text_of(run.model().parameter_count(), Style::count), training.steps, from, training.seed, on));
}

// Trains until done or a signal comes.
train::Outcome go(train::Run& run, Progress& progress) {
  const double tokens = static_cast<double>(run.plan().training.batch * run.task().context());
  const Signals signals;
  return run.go([&](const train::StepReport& report) {
    progress.update(report.step, fmt::format("loss {:.3f}, {} tokens/s", report.loss,
                                             text_of(tokens * progress.per_second(), Style::scaled)));
    return Signals::noted() == 0;
  });
}

void train_model(const TrainOptions& o) {
  std::optional<Context> context;
  int heads = 1;
  std::string why;
  together(ranks(), [&] {
    check(o);
    heads = heads_of(o, why);
    context.emplace(o.on.context());
  });
  std::vector<Fact> facts = own_facts();
  facts.push_back({"number of ranks that share a pass", std::to_string(heads)});
  expect_agreement(ranks(), "train", facts);
  const train::RankGrid grid(ranks(), heads);
  const std::unique_ptr<train::Run> run = run_of(o, *context, grid);
  announce(*run, grid);
  say(why);
  const std::int64_t steps = run->plan().training.steps;
  std::optional<Progress> progress(std::in_place, run->task().name(), steps, run->steps_taken());
  train::Outcome outcome;
  try {
    outcome = go(*run, *progress);
  } catch (const train::Diverged& diverged) {
    const std::string left = run->steps_saved() > 0 ? fmt::format("step {} is still in {}", run->steps_saved(), o.out)
                                                    : "nothing was saved yet";
    throw Failure(Exit::diverged,
                  fmt::format("{}; {}. Try a lower --rate or a longer --warmup", diverged.what(), left));
  }
  const double steps_per_second = progress->per_second();
  progress.reset();
  if (!outcome.finished) {
    ranks().end_together();
    throw Failure(Signals::noted() != 0 ? Signals::exit_code() : Exit::failure,  // the signal of another rank
                  fmt::format("stopped at step {} of {} and saved; to continue: polyhead train --resume --out {}",
                              outcome.last.step, steps, o.out));
  }
  print(report_of(*run, outcome, steps_per_second), o.format);
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const train::TaskSummary& task : train::task_list()) names.push_back(task.name);
  return names;
}

std::string tasks_help() {
  std::string text = "what to learn:";
  for (const train::TaskSummary& task : train::task_list()) text += fmt::format(" {} ({});", task.name, task.summary);
  text.back() = '.';
  return text;
}

constexpr std::int64_t kMostSteps = 1'000'000'000, kMostSeed = std::int64_t{1} << 53;

std::vector<Option> options_of(TrainOptions& o) {
  return {
      {"TASK", "", tasks_help(), &o.task, task_names()},
      {"out", "FOLDER", "where the model goes; created if missing", &o.out},
      {"file", "FILE", "the file that the task text learns", &o.file},
      {"resume", "", "continue the run in the folder, bit for bit as if it had not stopped", &o.resume},
      {"force", "", "start over in a folder that is not empty; files of an older run are removed", &o.force},
      {"steps", "N", "how many steps; with --resume, a new total", &o.steps, {}, 1, kMostSteps},
      {"batch", "N", "sequences per step", &o.batch},
      {"parts", "N",
       "parts of a batch, whose gradients are summed in a fixed order: at least as many as ranks that share them; "
       "default: 1, or 16 if ranks share them",
       &o.parts},
      o.grid.option(),
      {"rate", "X", "peak learning rate", &o.rate, {}, 0, 1000, true},
      {"warmup",
       "N",
       "steps until the rate peaks; then it falls along a cosine to a tenth",
       &o.warmup,
       {},
       0,
       kMostSteps},
      {"decay", "X", "weight decay of matrices", &o.decay, {}, 0, 1000},
      {"dropout", "X", "dropout probability in training", &o.dropout, {}, 0, 1, false, true},
      {"seed", "N", "seed of weights, data and dropout", &o.seed, {}, 0, kMostSeed},
      {"layers", "N", "blocks of attention and feed-forward network", &o.layers, {}, 1, 1000},
      {"width", "N", "width of the model", &o.width},
      {"heads", "N", "attention heads per layer; must divide the width", &o.heads},
      {"kv-heads", "N", "key/value heads per layer; default: as many as heads", &o.kv_heads},
      {"context", "N", "longest sequence, in tokens", &o.context},
      {"feed-forward", "", "with feed-forward networks, or with attention alone", &o.feed_forward},
      {"bias", "", "biases in the matrices, or none", &o.bias},
      {"norm", "KIND", "layer, rms or none", &o.norm, model::words_of<model::Norm>()},
      {"positions", "KIND", "learned, sinusoidal, rotary or none", &o.positions, model::words_of<model::Positions>()},
      {"save-every", "N", "steps between checkpoints", &o.save_every, {}, 1, kMostSteps},
      o.on.device_option(),
      o.on.training_precision_option(),
      o.on.threads_option(),
      format_option(o.format)};
}

}  // namespace

Command train_command() {
  auto o = std::make_shared<TrainOptions>();
  return {
      .name = "train",
      .summary = "train a transformer on a task or a text; resumes bit for bit",
      .description =
          "Trains a transformer with AdamW and writes it into a folder: the model (config.json, model.safetensors), "
          "what resuming needs (training.safetensors, run.json) and how it went (metrics.jsonl). Options that are left "
          "out get values that suit the task. Ctrl-C saves and exits with code 130; after a crash, a kill or a full "
          "disk --resume continues from the last checkpoint.",
      .examples = {{"polyhead train copy --out run", "a small model that learns to copy, in seconds"},
                   {"polyhead train --resume --out run", "continue after Ctrl-C or a crash"},
                   {"polyhead train --resume --out run --steps 2000", "the same run, longer"},
                   {"polyhead train text --file book.txt --out book", "learn the bytes of a file"},
                   {"polyhead train copy --heads 8 --no-feed-forward --out copy8",
                    "attention alone, eight heads per layer"},
                   {"mpirun -n 4 polyhead train copy --out run", "on four ranks; two or seven come to the same bits"},
                   {"mpirun -n 4 polyhead train copy --ranks data=2,heads=2 --out run",
                    "the same bits again: pairs of ranks share every pass"}},
      .options = options_of(*o),
      .run = [o] { train_model(*o); },
      .on_ranks = true};
}

}  // namespace polyhead::cli
