#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/numbers.h"
#include "io/checksum.h"
#include "io/json.h"
#include "model/checkpoint.h"

namespace polyhead::train {
namespace {

constexpr double kRunaway = 4;  // times the loss of the first step: no task of ours gets there by learning

// For messages.
std::string rounded(double value) {
  if (std::isnan(value)) return "nan";  // without the sign that printf gives it
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

// The shortest text that reads back as the same number.
std::string number(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// What every step depends on, except for the number of steps: a run may be made longer.
std::string options_text(const TrainOptions& options, const Task& task) {
  return task.name() + " data=" + std::to_string(task.seed()) + " batch=" + std::to_string(options.batch) +
         " rate=" + number(options.rate) + " warmup=" + std::to_string(options.warmup) +
         " decay=" + number(options.decay) + " clip=" + number(options.clip) + " seed=" + std::to_string(options.seed) +
         (options.parts > 1 ? " parts=" + std::to_string(options.parts) : "");
}

// All of the text as a number, or nothing.
template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void fit_to_task(model::Config& config, const Task& task) {
  config.kind = task.classes() > 0 ? model::Kind::classifier : model::Kind::gpt;
  config.vocabulary = task.vocabulary();
  config.context = task.context();
  config.classes = task.classes();
}

model::SequenceScores evaluate(Context& context, model::Transformer& model, const Task& task, Split split,
                               std::int64_t batches, std::int64_t batch, Ranks& ranks) {
  const auto each = [&](int rank) {
    return std::pair(batches * rank / ranks.size(), batches * (rank + 1) / ranks.size());
  };
  const auto [first, last] = each(ranks.rank());
  std::vector<Batch> examples;
  for (std::int64_t n = first; n < last; ++n)
    examples.push_back(task.batch(split, static_cast<std::uint64_t>(n), batch));
  model::SequenceScores own;
  if (first < last) own = model::score(context, model, examples);
  if (ranks.size() == 1) return own;
  model::SequenceScores all;
  for (const std::string& bytes : ranks.gather(own.packed())) {
    const model::SequenceScores more = model::SequenceScores::unpacked(bytes);
    all.add(more, 0, more.losses.size());
  }
  return all;
}

Trainer::Trainer(Context& context, model::Transformer& model, const Task& task, const TrainOptions& options,
                 const RankGrid& ranks)
    : context_(context),
      model_(model),
      task_(task),
      options_(options),
      optimiser_(model.parameters(), {.rule = {.beta2 = 0.99, .decay = options.decay}, .clip = options.clip}),
      schedule_{.peak = options.rate, .warmup = options.warmup, .steps = options.steps},
      tape_(context),
      ranks_(ranks) {
  if (options.parts > 1) sums_.emplace(context, model.parameters(), options.parts, ranks_.data());
  if (ranks_.heads().size() == 1) return;
  shared_.emplace(ranks_.heads());
  tape_.share(&*shared_);
}

// Leaves the gradient of the mean loss of these rows on the tape. Threads stay awake from the loss on.
autograd::Loss Trainer::gradient_of(const Batch& data, std::uint64_t index, std::int64_t begin, std::int64_t end,
                                    std::optional<Executor::Burst>& burst) {
  const auto rows = [&](const Tensor& all) {
    return all.present() ? ConstTensorView(all).slice(0, begin, end) : ConstTensorView{};
  };
  tape_.clear();
  const autograd::Variable logits = model_.forward(tape_, rows(data.tokens),
                                                   {.training = true,
                                                    .seed = options_.seed * 1000003 + index,
                                                    .first_sequence = begin,
                                                    .lengths = rows(data.lengths)});
  burst.emplace(context_.executor());
  const autograd::Loss loss = autograd::cross_entropy(tape_, logits, tape_.here(rows(data.targets)));
  tape_.backward();
  return loss;
}

// The same of the whole batch. A part weighs as many targets as it has; the loss is summed in the order of the parts.
double Trainer::gradient_of_parts(const Batch& data, std::uint64_t index) {
  const std::int64_t batch = options_.batch, parts = options_.parts, each = data.targets.view().count() / batch;
  const std::int32_t* targets = data.targets.as<std::int32_t>();
  const auto counted = std::count_if(targets, targets + batch * each, [](std::int32_t target) { return target >= 0; });
  std::string losses;
  sums_->sum(tape_.gradients(), [&](std::int64_t part) {
    std::optional<Executor::Burst> burst;  // ends before ranks wait for each other
    const ops::CrossEntropy found =
        gradient_of(data, index, batch * part / parts, batch * (part + 1) / parts, burst).read();
    const double weight = static_cast<double>(found.count) / static_cast<double>(std::max<std::int64_t>(counted, 1));
    const double share = weight * found.loss;
    losses.append(reinterpret_cast<const char*>(&share), sizeof share);
    return weight;
  });
  double sum = 0;
  for (const std::string& some : ranks_.data().gather(losses)) {
    for (std::size_t at = 0; at < some.size(); at += sizeof sum) {
      double share = 0;
      std::memcpy(&share, some.data() + at, sizeof share);
      sum += share;
    }
  }
  return sum;
}

// Ranks that share a pass have some rows of it each.
void Trainer::complete_gradient() {
  if (!shared_) return;
  std::vector<TensorView> gradients;
  for (const autograd::Parameter* parameter : model_.parameters()) {
    gradients.emplace_back(tape_.gradients().of(*parameter));
  }
  shared_->complete(context_, gradients);
}

StepReport Trainer::step() {
  StepReport report{.step = steps_taken() + 1};
  report.rate = schedule_.rate(report.step);
  const auto index = static_cast<std::uint64_t>(steps_taken());
  const Batch data = task_.batch(Split::train, index, options_.batch);
  std::optional<autograd::Loss> loss;
  std::optional<Executor::Burst> burst;
  if (sums_) {
    report.loss = gradient_of_parts(data, index);
  } else {
    loss = gradient_of(data, index, 0, options_.batch, burst);
  }
  complete_gradient();
  report.gradient_norm = optimiser_.norm(context_, tape_.gradients());
  if (loss) report.loss = loss->read().loss;  // only now, so that a GPU is waited for once
  expect_sane(report.loss, report.step, "the loss");
  if (!first_loss_) first_loss_ = report.loss;
  if (!std::isfinite(report.gradient_norm)) {
    diverged("the gradient's norm is " + rounded(report.gradient_norm) + at(report.step));
  }
  optimiser_.step(context_, tape_.gradients(), report.gradient_norm, report.rate);
  return report;
}

// All ranks see the same numbers, and so end together.
void Trainer::diverged(const std::string& what) const {
  ranks_.all().end_together();
  throw Diverged(what);
}

void Trainer::expect_sane(double loss, std::int64_t step, const std::string& whose) const {
  if (!std::isfinite(loss)) diverged(whose + " is " + rounded(loss) + at(step));
  if (first_loss_ && loss > kRunaway * std::max(*first_loss_, 1.0)) {
    diverged(whose + " has grown from " + rounded(*first_loss_) + " to " + rounded(loss) + at(step));
  }
}

std::string Trainer::at(std::int64_t step) const {
  return " at step " + std::to_string(step) + " (rate " + rounded(schedule_.rate(step)) + ")";
}

std::vector<Fact> Trainer::facts() const {
  io::Checksum numbers;
  for (const Optimiser::Moments& m : optimiser_.moments()) {
    numbers.add(m.parameter->value);
    numbers.add(m.first);
    numbers.add(m.second);
  }
  return {{"task or options", options_text(options_, task_) + " steps=" + std::to_string(options_.steps)},
          {"model", model::to_json(model_.config())},
          {"step to begin with", std::to_string(steps_taken())},
          {"set of weights and moments", numbers.digits()}};
}

void Trainer::save(const std::filesystem::path& file) const {
  model::HostTensors tensors = model::named_parameters(model_);
  for (const Optimiser::Moments& m : optimiser_.moments()) {
    tensors.add("first." + m.parameter->name, m.first);
    tensors.add("second." + m.parameter->name, m.second);
  }
  io::write_safetensors(file, tensors.named(),
                        {{"format", "polyhead training"},
                         {"step", std::to_string(steps_taken())},
                         {"first_loss", first_loss_ ? number(*first_loss_) : ""},
                         {"options", options_text(options_, task_)},
                         {"config", model::to_json(model_.config())}});
}

void Trainer::resume(const std::filesystem::path& path) {
  io::Safetensors file = io::read_safetensors(path);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::input, "resume", file.where + ": " + what);
  };
  if (file.metadata["format"] != "polyhead training")
    refuse("expected the state of a training run, found another file");
  if (!file.checked) refuse("expected a checksum, found none: the file is damaged, or was tampered with");
  if (file.metadata["options"] != options_text(options_, task_)) {
    refuse("expected a run with " + options_text(options_, task_) + ", found one with " +
           io::in_quotes(file.metadata["options"]));
  }
  if (file.metadata["config"] != model::to_json(model_.config())) refuse("the run's model has another configuration");
  model::take_parameters(file, model_, model::Placement(context_, Precision::f32));
  const auto take = [&](const std::string& name, Tensor& to) {
    Tensor found = file.take(name);
    if (found.shape() != to.shape() || found.dtype() != to.dtype()) {
      refuse(name + ": expected " + describe(to) + ", found " + describe(found));
    }
    model::expect_finite(file.where, name, found);
    to = moved_to(to.allocator(), std::move(found));
  };
  for (Optimiser::Moments& m : optimiser_.moments()) {
    take("first." + m.parameter->name, m.first);
    take("second." + m.parameter->name, m.second);
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (file.has(name)) refuse(name + " is in the file, but the run has no place for it");
  }
  const std::optional<std::int64_t> step = parsed<std::int64_t>(file.metadata["step"]);
  if (!step || *step < 0) refuse("step: expected a number, found " + io::in_quotes(file.metadata["step"]));
  if (*step > options_.steps) {
    refuse("expected a run of " + std::to_string(options_.steps) + " steps or fewer, found one that has taken " +
           std::to_string(*step));
  }
  optimiser_.set_steps_taken(*step);
  first_loss_ = parsed<double>(file.metadata["first_loss"]);
}

}  // namespace polyhead::train
