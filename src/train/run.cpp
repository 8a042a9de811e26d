#include "train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/hash.h"
#include "core/memory.h"
#include "model/checkpoint.h"
#include "model/memory.h"
#include "polyhead/info.h"
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
  expect(plan.save_every >= 1, "save_every", "1 or more", plan.save_every);
}

// Parameters, gradients and two moments; a training step; a validation and its sequences.
void expect_memory(const Plan& plan) {
  const model::Pass step{.batch = plan.training.batch, .tokens = plan.model.context, .backward = true};
  const model::Pass validation{.batch = step.batch, .tokens = step.tokens};
  const double sequences =
      kValidationBatches * 8.0 * static_cast<double>(step.batch) * static_cast<double>(step.tokens);
  model::expect_memory("run", plan.model, 4, step, model::pass_bytes(plan.model, validation) + sequences);
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

std::string target_of(const Context& context) {
  return context.device() == Device{} ? info().target : to_string(context.device());
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

Run::Run(Context& context, Plan plan, std::unique_ptr<Task> task, const fs::path& folder)
    : context_(context),
      plan_(std::move(plan)),
      task_(std::move(task)),
      model_(std::make_unique<model::Transformer>(plan_.model, plan_.training.seed, DType::f32, context.allocator())),
      trainer_(context, *model_, *task_, plan_.training),
      folder_(folder) {}

std::unique_ptr<Run> Run::start(Context& context, Plan plan, const fs::path& folder, bool force) {
  check(plan);
  if (!plan.file.empty()) plan.file = fs::absolute(plan.file);
  plan.target = target_of(context);
  std::unique_ptr<Task> task = task_of(plan);
  fit_to_task(plan.model, *task);
  model::check(plan.model);
  expect_memory(plan);
  std::unique_ptr<Run> run(new Run(context, std::move(plan), std::move(task), folder));
  io::expect_new_folder(folder, force);
  io::make_folder(folder);
  run->lock_.emplace(folder);
  io::sweep_temporaries(folder);
  remove_run(folder);
  model::save_config(run->plan_.model, folder);
  save_tokenizer(run->plan_.task, folder);
  save_plan(run->plan_, folder);
  run->metrics_.emplace(folder / kMetricsFile, 0);
  return run;
}

std::unique_ptr<Run> Run::resume(Context& context, const fs::path& folder, const Changes& changes) {
  Plan plan = load_plan(folder);
  if (plan.pruned) {
    refuse(folder.string() + ": this model was pruned and has no run to resume; polyhead prune --fine-tune trains it");
  }
  if (!changes.file.empty()) plan.file = fs::absolute(changes.file);
  plan.training.steps = changes.steps.value_or(plan.training.steps);
  plan.save_every = changes.save_every.value_or(plan.save_every);
  check(plan);
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
  expect_memory(plan);
  std::unique_ptr<Run> run(new Run(context, std::move(plan), std::move(task), folder));
  run->lock_.emplace(folder);
  if (saved) {
    run->trainer_.resume(state);
    run->saved_ = run->steps_taken();
  }
  io::sweep_temporaries(folder);
  save_tokenizer(run->plan_.task, folder);
  save_plan(run->plan_, folder);
  run->metrics_.emplace(folder / kMetricsFile, run->saved_);
  // The process may have been killed after saving the state and before saving its model.
  if (run->saved_ > 0) model::save(*run->model_, folder);
  return run;
}

Validation Run::validate() {
  const model::SequenceScores scores =
      evaluate(context_, *model_, *task_, Split::validation, kValidationBatches, plan_.training.batch);
  return {.step = steps_taken(), .loss = scores.mean_loss(), .accuracy = scores.accuracy()};
}

// A model that has diverged is never saved, so the last checkpoint is a good one.
void Run::checkpoint(double seconds) {
  validation_ = validate();
  trainer_.expect_sane(validation_.loss, validation_.step, "the validation loss");
  metrics_->add(validation_, seconds);
  metrics_->sync();
  trainer_.save(folder_ / kStateFile);
  saved_ = steps_taken();
  model::save(*model_, folder_);
}

Outcome Run::go(const std::function<bool(const StepReport&)>& go_on) {
  const Clock::time_point begin = Clock::now();
  const double before = metrics_->seconds();
  const auto seconds = [&] { return before + seconds_since(begin); };
  StepReport last = metrics_->last();
  bool stopped = false;
  while (!trainer_.done() && !stopped) {
    last = trainer_.step();
    if (last.step == 1 || last.step % kLogEvery == 0 || trainer_.done()) metrics_->add(last, seconds());
    stopped = !go_on(last);
    if (stopped || trainer_.done() || last.step % plan_.save_every == 0) checkpoint(seconds());
  }
  if (validation_.step != steps_taken()) validation_ = validate();  // there was nothing left to do
  return {.finished = trainer_.done(), .last = last, .validation = validation_, .seconds = seconds()};
}

}  // namespace polyhead::train
