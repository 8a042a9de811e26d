// Gradients summed over parts of a batch: the steps of the whole batch, but for rounding, whatever the parts.
#include "train/parts.h"

#include <gtest/gtest.h>

#include "io/scratch.h"
#include "train/plan.h"
#include "train/tasks.h"
#include "train/trainer.h"

namespace polyhead::train {
namespace {

// Three steps with dropout, in so many parts.
std::vector<StepReport> steps_in(const std::string& name, std::int64_t parts) {
  Context context(1);
  const std::unique_ptr<Task> task = make_task({.name = name});
  model::Config config = model::make_config(model::Kind::gpt, 2, 32, 4);
  config.dropout = 0.2;
  fit_to_task(config, *task);
  model::Transformer model(config, 3);
  Trainer trainer(context, model, *task, {.steps = 3, .batch = 11, .warmup = 1, .parts = parts});
  return {trainer.step(), trainer.step(), trainer.step()};
}

// Sequences of dyck have many lengths, so parts weigh differently. A mask of dropout that is not that of the batch, or
// a weight that is not the part's, changes loss and norm in the second digit; rounding in the sixth.
TEST(Parts, AddUpToTheBatch) {
  for (const std::string name : {"copy", "dyck", "classify"}) {
    const std::vector<StepReport> whole = steps_in(name, 1);
    for (const std::int64_t parts : {2, 3, 11}) {
      SCOPED_TRACE(name + " in " + std::to_string(parts));
      const std::vector<StepReport> some = steps_in(name, parts);
      for (std::size_t n = 0; n < whole.size(); ++n) {
        EXPECT_NEAR(some[n].loss, whole[n].loss, 1e-4 * whole[n].loss);
        EXPECT_NEAR(some[n].gradient_norm, whole[n].gradient_norm, 1e-4 * whole[n].gradient_norm);
      }
    }
  }
}

// A run keeps its number: another one gives other bits.
TEST(Parts, AreThoseThatTheRunBeganWith) {
  const io::Scratch scratch;
  Context context(1);
  const std::unique_ptr<Task> task = make_task({.name = "copy"});
  model::Config config = model::make_config(model::Kind::gpt, 1, 8, 2);
  fit_to_task(config, *task);
  model::Transformer model(config, 3);
  const auto in = [&](std::int64_t parts) { return Trainer(context, model, *task, {.batch = 4, .parts = parts}); };
  in(2).save(scratch / "state");
  EXPECT_NO_THROW(in(2).resume(scratch / "state"));
  io::expect_error(ErrorCode::input, {"seed=1 parts=4, found", "seed=1 parts=2"},
                   [&] { in(4).resume(scratch / "state"); });
  io::expect_error(ErrorCode::input, {"seed=1, found", "seed=1 parts=2"}, [&] { in(1).resume(scratch / "state"); });
}

}  // namespace
}  // namespace polyhead::train
