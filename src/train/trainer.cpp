#include "train/trainer.h"

#include <cmath>
#include <cstring>

#include "model/checkpoint.h"

namespace polyhead::train {
namespace {

constexpr double kRunaway = 4;  // times the loss of the first step: no task of ours gets there by learning

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string options_text(const TrainOptions& options, const Task& task) {
  return task.name() + " steps=" + std::to_string(options.steps) + " batch=" + std::to_string(options.batch) +
         " rate=" + number(options.rate) + " warmup=" + std::to_string(options.warmup) +
         " decay=" + number(options.decay) + " clip=" + number(options.clip) + " seed=" + std::to_string(options.seed);
}

}  // namespace

void fit_to_task(model::Config& config, const Task& task) {
  config.kind = task.classes() > 0 ? model::Kind::classifier : model::Kind::gpt;
  config.vocabulary = task.vocabulary();
  config.context = task.context();
  config.classes = task.classes();
}

model::SequenceScores evaluate(Context& context, model::Transformer& model, const Task& task, Split split,
                               std::int64_t batches, std::int64_t batch) {
  std::vector<Batch> examples;
  for (std::int64_t n = 0; n < batches; ++n)
    examples.push_back(task.batch(split, static_cast<std::uint64_t>(n), batch));
  return model::score(context, model, examples);
}

Trainer::Trainer(Context& context, model::Transformer& model, const Task& task, const TrainOptions& options)
    : context_(context),
      model_(model),
      task_(task),
      options_(options),
      optimiser_(model.parameters(), {.rule = {.beta2 = 0.99, .decay = options.decay}, .clip = options.clip}),
      schedule_{.peak = options.rate, .warmup = options.warmup, .steps = options.steps},
      tape_(context) {}

StepReport Trainer::step() {
  StepReport report{.step = steps_taken() + 1};
  report.rate = schedule_.rate(report.step);
  const auto index = static_cast<std::uint64_t>(steps_taken());
  const Batch data = task_.batch(Split::train, index, options_.batch);
  tape_.clear();
  const autograd::Variable logits = model_.forward(
      tape_, data.tokens, {.training = true, .seed = options_.seed * 1000003 + index, .lengths = data.lengths});
  report.loss = autograd::cross_entropy(tape_, logits, data.targets).loss;
  const auto at = [&] { return " at step " + std::to_string(report.step) + " (rate " + number(report.rate) + ")"; };
  if (!std::isfinite(report.loss)) throw Diverged("the loss is " + number(report.loss) + at());
  if (!first_loss_) first_loss_ = report.loss;
  if (report.loss > kRunaway * std::max(*first_loss_, 1.0)) {
    throw Diverged("the loss has grown from " + number(*first_loss_) + " to " + number(report.loss) + at());
  }
  tape_.backward();
  report.gradient_norm = optimiser_.step(context_, report.rate);
  if (!std::isfinite(report.gradient_norm)) {
    throw Diverged("the gradient's norm is " + number(report.gradient_norm) + at());
  }
  return report;
}

void Trainer::save(const std::filesystem::path& file) const {
  std::vector<io::NamedTensor> tensors = model::named_parameters(model_);
  for (const Optimiser::Moments& m : optimiser_.moments()) {
    tensors.push_back({"first." + m.parameter->name, m.first});
    tensors.push_back({"second." + m.parameter->name, m.second});
  }
  char first_loss[40] = "";
  if (first_loss_) std::snprintf(first_loss, sizeof first_loss, "%a", *first_loss_);
  io::write_safetensors(file, tensors,
                        {{"format", "polyhead training"},
                         {"step", std::to_string(steps_taken())},
                         {"first_loss", first_loss},
                         {"options", options_text(options_, task_)},
                         {"config", model::to_json(model_.config())}});
}

void Trainer::resume(const std::filesystem::path& path) {
  io::Safetensors file = io::read_safetensors(path);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::input, "resume", file.where + ": " + what);
  };
  if (file.metadata["format"] != "polyhead training")
    refuse("expected the state of a training run, found no such mark");
  if (file.metadata["options"] != options_text(options_, task_)) {
    refuse("expected a run with " + options_text(options_, task_) + ", found one with " + file.metadata["options"]);
  }
  if (file.metadata["config"] != model::to_json(model_.config())) refuse("the run's model has another configuration");
  model::take_parameters(file, model_);
  const auto take = [&](const std::string& name, Tensor& to) {
    Tensor found = file.take(name);
    if (found.shape() != to.shape() || found.dtype() != to.dtype()) {
      refuse(name + ": expected " + describe(to) + ", found " + describe(found));
    }
    to = std::move(found);
  };
  for (Optimiser::Moments& m : optimiser_.moments()) {
    take("first." + m.parameter->name, m.first);
    take("second." + m.parameter->name, m.second);
  }
  optimiser_.set_steps_taken(std::strtoll(file.metadata["step"].c_str(), nullptr, 10));
  const std::string& first = file.metadata["first_loss"];
  if (!first.empty()) first_loss_ = std::strtod(first.c_str(), nullptr);
}

}  // namespace polyhead::train
