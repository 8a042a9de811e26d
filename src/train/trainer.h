// Training one model on one task.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/executor.h"
#include "model/transformer.h"
#include "train/optimiser.h"
#include "train/parts.h"
#include "train/rank_grid.h"
#include "train/task.h"

namespace polyhead::train {

struct TrainOptions {
  std::int64_t steps = 1000, batch = 32;
  double rate = 1e-3;
  std::int64_t warmup = 50;
  double decay = 0.01, clip = 1;
  std::uint64_t seed = 1;  // of weights and dropout; the task has its own
  // The gradient is summed over so many parts of a batch, each of which one rank computes. The bits depend on it, and
  // not on the number of ranks.
  std::int64_t parts = 1;
};

struct StepReport {
  std::int64_t step = 0;  // counted from 1
  double loss = 0, gradient_norm = 0, rate = 0;
};

// The model's scores on `batches` batches of the split, which ranks take turns at; all of them get all scores.
model::SequenceScores evaluate(Context& context, model::Transformer& model, const Task& task, Split split,
                               std::int64_t batches, std::int64_t batch, Ranks& ranks = alone());

// Training went wrong: the loss or the gradient is not finite, or the loss has run away.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Trainer {
 public:
  // The model must fit the task.
  Trainer(Context& context, model::Transformer& model, const Task& task, const TrainOptions& options,
          const RankGrid& ranks = {});

  std::int64_t steps_taken() const noexcept { return optimiser_.steps_taken(); }
  bool done() const noexcept { return steps_taken() >= options_.steps; }
  // Throws Diverged, on all ranks; the parameters are then those before the step.
  StepReport step();
  // Throws Diverged if a loss of this model is not finite, or far above that of the first step.
  void expect_sane(double loss, std::int64_t step, const std::string& whose) const;

  // Everything that the next step depends on: parameters, moments, the number of steps. One file, replaced as a whole.
  void save(const std::filesystem::path& file) const;
  // Continues from there, bit for bit; refuses (input) a file of another model or other options. The number of steps
  // may differ, but not be less than those taken; the schedule continues as in a run of that length.
  void resume(const std::filesystem::path& file);

  // What has to be the same on all ranks: task, options, model, numbers.
  std::vector<Fact> facts() const;

 private:
  autograd::Loss gradient_of(const Batch& data, std::uint64_t index, std::int64_t begin, std::int64_t end,
                             std::optional<Executor::Burst>& burst);
  double gradient_of_parts(const Batch& data, std::uint64_t index);
  void complete_gradient();
  [[noreturn]] void diverged(const std::string& what) const;
  std::string at(std::int64_t step) const;  // " at step 7 (rate 0.001)"

  Context& context_;
  model::Transformer& model_;
  const Task& task_;
  TrainOptions options_;
  Optimiser optimiser_;
  Schedule schedule_;
  autograd::Tape tape_;
  RankGrid ranks_;
  std::optional<PartSums> sums_;           // if there are parts
  std::optional<ops::SharedPass> shared_;  // if ranks share a pass
  std::optional<double> first_loss_;
};

// Gives the config the task's kind, vocabulary, context and classes.
void fit_to_task(model::Config& config, const Task& task);

}  // namespace polyhead::train
