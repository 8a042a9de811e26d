#include "exam/subject.h"

#include <future>

#include "io/file.h"
#include "model/checkpoint.h"
#include "train/run.h"

namespace polyhead::exam {
namespace {

// Refuses a folder that lacks a file; if there is no folder at all, model::load says more.
void expect_files(const std::filesystem::path& folder) {
  if (!io::is_folder(folder)) return;
  for (const char* name : {model::kConfigFile, train::kPlanFile, model::kWeightsFile}) {
    if (io::is_there(folder / name)) continue;
    throw Error(ErrorCode::input, "load",
                folder.string() + ": expected " + model::kConfigFile + ", " + train::kPlanFile + " and " +
                    model::kWeightsFile + ", as polyhead train makes, found no " + name);
  }
}

}  // namespace

Subject load_subject(const Context& context, const std::filesystem::path& folder, const std::filesystem::path& text) {
  expect_files(folder);
  std::unique_ptr<model::Transformer> model = model::load(folder, context);
  train::Plan plan = train::load_plan(folder);
  if (!text.empty()) plan.file = std::filesystem::absolute(text);
  std::unique_ptr<train::Task> task = train::task_of(plan);
  model::Config fitted = model->config();
  train::fit_to_task(fitted, *task);
  if (fitted != model->config()) {
    throw Error(ErrorCode::input, "load",
                (folder / model::kConfigFile).string() + ": expected a model for the task " + task->name() + " of " +
                    train::kPlanFile + ", found one of another kind, vocabulary or context");
  }
  Subject subject{.model = std::move(model), .about = task->name(), .plan = std::move(plan), .task = std::move(task)};
  return subject;
}

Subject load_reader(const Context& context, const std::filesystem::path& model, const std::filesystem::path& text) {
  // Each takes a quarter of a second for a small model and a short text, and neither needs the other.
  std::future<Encoded> encoded = std::async(encode_text, model, text);
  Subject subject{.model = model::load(model, context), .about = text.filename().string()};
  subject.reading = reading_of(encoded.get(), model, subject.model->config());
  return subject;
}

}  // namespace polyhead::exam
