#include "train/run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "core/executor.h"
#include "core/hash.h"
#include "core/memory.h"
#include "model/checkpoint.h"
#include "train/words.h"

namespace polyhead::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLogEvery = 10, kValidationBatches = 8;
constexpr std::uintmax_t kMostText = INT32_MAX;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::input, "run", what); }

// Size and FNV-1a: tells whether a text has changed since the run began.
std::string mark_of(const std::string& text) {
  const std::uint64_t hash = fnv1a(text);
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash >> shift & 15];
  return std::to_string(text.size()) + " bytes, fnv1a " + digits;
}

void check(const Plan& plan) {
  const auto expect = [](bool good, const char* name, const char* expected, auto found) {
    if (good) return;
    throw Error(ErrorCode::value, "run",
                std::string(name) + ": expected " + expected + ", found " + std::to_string(found));
  };
  const TrainOptions& t = plan.training;
  expect(t.steps >= 1, "steps", "1 or more", t.steps);
  expect(t.batch >= 1, "batch", "1 or more", t.batch);
  expect(t.rate > 0 && std::isfinite(t.rate), "rate", "more than 0", t.rate);
  expect(t.decay >= 0 && std::isfinite(t.decay), "decay", "0 or more", t.decay);
  expect(t.parts >= 1 && t.parts <= t.batch, "parts", "from 1 to as many as the batch has sequences", t.parts);
  expect(plan.save_every >= 1, "save_every", "1 or more", plan.save_every);
}

// More groups than parts have nothing to do, and a part is never split.
void expect_ranks(const Plan& plan, const RankGrid& ranks) {
  const int groups = ranks.data().size();
  if (groups <= plan.training.parts) return;
  refuse("expected at most as many ranks as the batch has parts (" + std::to_string(plan.training.parts) + "), found " +
         std::to_string(groups) +
         "; start fewer, let them share every pass (--ranks heads=N), or start a new run with more --parts");
}

// Parts of a batch draw their dropout from its origin.
void expect_parts(const Plan& plan, Context& context) {
  if (plan.training.parts == 1 || plan.model.dropout == 0) return;
  if (context.executor().kernels().counts_dropout_from_origin) return;
  refuse("expected a batch in one part, found " + std::to_string(plan.training.parts) + " with dropout on " +
         to_string(context.device()) +
         ", which draws it for whole batches; run on the CPU, or begin a run with --parts 1 " + "or without dropout");
}

bool on_any(Ranks& ranks, bool here) {
  if (ranks.size() == 1) return here;
  const std::vector<std::string> all = ranks.gather(here ? "1" : "");
  return std::any_of(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
}

// What is in the folder, with the changes.
Plan plan_of(const fs::path& folder, const Changes& changes) {
  Plan plan = load_plan(folder);
  if (plan.pruned) {
    refuse(folder.string() + ": this model was pruned and has no run to resume; polyhead prune --fine-tune trains it");
  }
  if (!changes.file.empty()) plan.file = fs::absolute(changes.file);
  plan.training.steps = changes.steps.value_or(plan.training.steps);
  plan.save_every = changes.save_every.value_or(plan.save_every);
  check(plan);
  return plan;
}

// What ranks that share a pass gather at once: the columns of its widest product, or the gradient of its largest
// weight.
double gathered_bytes(const model::Config& config, const model::Pass& step) {
  std::int64_t widest = std::max(config.width, config.outputs());
  if (config.feed_forward != model::FeedForward::none) {
    widest = std::max(widest, (is_gated(config.feed_forward) ? 2 : 1) * config.hidden);
  }
  for (const model::LayerHeads& heads : config.layers) {
    widest = std::max(widest, (heads.heads + 2 * heads.kv_heads) * config.head_dim);
  }
  const std::int64_t rows = std::max(step.batch * step.tokens, std::max(config.width, config.hidden));
  return 4.0 * static_cast<double>(rows) * static_cast<double>(widest);
}

void expect_memory(const Plan& plan, const RankGrid& ranks) {
  const RunMemory memory =
      memory_of(plan.model, plan.model.context, plan.training.batch, plan.training.parts, ranks.heads().size());
  model::expect_memory("run", plan.model, memory.copies, memory.step, memory.more);
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

std::string target_of(const Context& context) { return context.executor().target(); }

// Parameters, gradients and two moments, and a gradient for every level of a tree of parts; a training step; a
// validation and its sequences.
RunMemory memory_of(const model::Config& config, std::int64_t tokens, std::int64_t batch, std::int64_t parts,
                    std::int64_t heads) {
  const model::Pass step{.batch = (batch + parts - 1) / parts, .tokens = tokens, .backward = true};
  const model::Pass validation{.batch = batch, .tokens = tokens};
  const double sequences = kValidationBatches * 8.0 * static_cast<double>(batch) * static_cast<double>(tokens);
  const double shared = heads > 1 ? gathered_bytes(config, step) : 0;
  const auto levels = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(parts)));
  return {.copies = parts > 1 ? 5 + levels : 4,
          .step = step,
          .more = model::pass_bytes(config, validation) + sequences + shared};
}

std::unique_ptr<Task> task_of(Plan& plan) {
  TaskOptions options = plan.task;
  if (!plan.file.empty()) {
    std::error_code ignored;  // a pipe has no size
    const auto bytes = fs::is_regular_file(plan.file, ignored) ? fs::file_size(plan.file, ignored) : 0;
    polyhead::expect_memory("run", plan.file.string(), 2.0 * static_cast<double>(std::min(bytes, kMostText)),
                            "take a part of it");
    options.text = io::read_file(plan.file, kMostText);
    if (options.text.empty()) refuse(plan.file.string() + ": the file is empty");
    const std::string mark = mark_of(options.text);
    if (plan.text_mark.empty()) plan.text_mark = mark;
    if (plan.text_mark != mark) {
      refuse(plan.file.string() + ": the run began with another text: expected " + plan.text_mark + ", found " + mark);
    }
  }
  return make_task(options);
}

// Removes the plan first: without it there is no run here, whatever else remains.
void remove_run(const fs::path& folder) {
  for (const char* name : {kPlanFile, kStateFile, kMetricsFile, model::kWeightsFile, model::kConfigFile}) {
    std::error_code error;
    fs::remove(folder / name, error);
    if (error) throw Error(ErrorCode::io, "run", (folder / name).string() + ": cannot remove it: " + error.message());
  }
}

Run::Run(Context& context, Plan plan, std::unique_ptr<Task> task, const fs::path& folder, const RankGrid& ranks)
    : context_(context),
      ranks_(ranks),
      plan_(std::move(plan)),
      task_(std::move(task)),
      model_(std::make_unique<model::Transformer>(plan_.model, plan_.training.seed, DType::f32, context.allocator())),
      trainer_(context, *model_, *task_, plan_.training, ranks),
      folder_(folder) {}

// Before anything is written.
void Run::expect_agreement() const {
  if (ranks_.all().size() == 1) return;
  std::vector<Fact> facts{{"text", plan_.text_mark.empty() ? "none" : plan_.text_mark},
                          {"number of steps between checkpoints", std::to_string(plan_.save_every)}};
  for (Fact& fact : trainer_.facts()) facts.push_back(std::move(fact));
  polyhead::expect_agreement(ranks_.all(), "run", facts);
}

// The process may have been killed after saving the state and before saving its model.
void Run::open(std::int64_t saved) {
  save_tokenizer(plan_.task, folder_);
  save_plan(plan_, folder_);
  metrics_.emplace(folder_ / kMetricsFile, saved);
  if (saved > 0) model::save(*model_, folder_);
}

std::unique_ptr<Run> Run::start(Context& context, Plan plan, const fs::path& folder, bool force,
                                const RankGrid& ranks) {
  std::unique_ptr<Run> run;
  together(ranks.all(), [&] {
    check(plan);
    expect_ranks(plan, ranks);
    expect_parts(plan, context);
    if (!plan.file.empty()) plan.file = fs::absolute(plan.file);
    plan.target = target_of(context);
    std::unique_ptr<Task> task = task_of(plan);
    fit_to_task(plan.model, *task);
    model::check(plan.model);
    expect_memory(plan, ranks);
    run.reset(new Run(context, std::move(plan), std::move(task), folder, ranks));
  });
  run->expect_agreement();
  together(ranks.all(), [&] {
    if (ranks.all().rank() > 0) return;
    io::expect_new_folder(folder, force);
    io::make_folder(folder);
    run->lock_.emplace(folder);
    io::sweep_temporaries(folder);
    remove_run(folder);
    model::save_config(run->plan_.model, folder);
    run->open(0);
  });
  return run;
}

std::unique_ptr<Run> Run::resume(Context& context, const fs::path& folder, const Changes& changes,
                                 const RankGrid& ranks) {
  std::unique_ptr<Run> run;
  together(ranks.all(), [&] {
    Plan plan = plan_of(folder, changes);
    expect_ranks(plan, ranks);
    expect_parts(plan, context);
    std::unique_ptr<Task> task = task_of(plan);
    model::Config fitted = plan.model;
    fit_to_task(fitted, *task);
    if (fitted != plan.model) {
      refuse((folder / model::kConfigFile).string() + ": this model is not one for the task " + task->name());
    }
    const fs::path state = folder / kStateFile;
    const bool saved = io::is_there(state);
    if (!saved && io::is_there(folder / model::kWeightsFile)) {
      refuse(folder.string() + ": expected " + kStateFile + " beside " + model::kWeightsFile +
             ", found none: this model has no run to resume");
    }
    expect_memory(plan, ranks);
    run.reset(new Run(context, std::move(plan), std::move(task), folder, ranks));
    if (ranks.all().rank() == 0) run->lock_.emplace(folder);
    if (saved) {
      run->trainer_.resume(state);
      run->saved_ = run->steps_taken();
    }
  });
  run->expect_agreement();
  together(ranks.all(), [&] {
    if (ranks.all().rank() > 0) return;
    io::sweep_temporaries(folder);
    run->open(run->saved_);
  });
  return run;
}

Validation Run::validate() {
  const model::SequenceScores scores =
      evaluate(context_, *model_, *task_, Split::validation, kValidationBatches, plan_.training.batch, ranks_.all());
  return {.step = steps_taken(), .loss = scores.mean_loss(), .accuracy = scores.accuracy()};
}

// A model that has diverged is never saved, so the last checkpoint is a good one.
void Run::checkpoint(double seconds) {
  validation_ = validate();
  trainer_.expect_sane(validation_.loss, validation_.step, "the validation loss");
  if (ranks_.all().rank() > 0) {
    saved_ = steps_taken();
    return;
  }
  metrics_->add(validation_, seconds);
  metrics_->sync();
  trainer_.save(folder_ / kStateFile);
  saved_ = steps_taken();
  model::save(*model_, folder_);
}

Outcome Run::go(const std::function<bool(const StepReport&)>& go_on) {
  const Clock::time_point begin = Clock::now();
  const double before = metrics_ ? metrics_->seconds() : 0;
  const auto seconds = [&] { return before + seconds_since(begin); };
  StepReport last = metrics_ ? metrics_->last() : StepReport{};
  bool stopped = false;
  while (!trainer_.done() && !stopped) {
    last = trainer_.step();
    const bool logged = last.step == 1 || last.step % kLogEvery == 0 || trainer_.done();
    if (logged && metrics_) metrics_->add(last, seconds());
    stopped = on_any(ranks_.all(), !go_on(last));
    if (stopped || trainer_.done() || last.step % plan_.save_every == 0) checkpoint(seconds());
  }
  if (validation_.step != steps_taken()) validation_ = validate();  // there was nothing left to do
  return {.finished = trainer_.done(), .last = last, .validation = validation_, .seconds = seconds()};
}

}  // namespace polyhead::train
