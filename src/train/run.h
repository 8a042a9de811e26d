// A training run in a folder. A kill or a full disk at any moment loses the steps since the last checkpoint, no more.
//
//   config.json, model.safetensors   the model as of the last checkpoint, for every other command
//   training.safetensors             what the next step depends on: parameters, moments, the number of steps
//   run.json                         the plan
//   metrics.jsonl                    how it went
//
// On several ranks all of them compute and hold the same numbers; rank 0 alone writes, and the others read what is
// there.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "io/file.h"
#include "model/memory.h"
#include "train/metrics.h"
#include "train/plan.h"
#include "train/rank_grid.h"
#include "train/trainer.h"

namespace polyhead::train {

inline constexpr const char* kStateFile = "training.safetensors";

// What may change when a run is resumed. A new number of steps stretches the rest of the schedule to the new end.
struct Changes {
  std::optional<std::int64_t> steps{}, save_every{};
  std::filesystem::path file{};  // where the text is now; it must be the same text
};

struct Outcome {
  bool finished = false;  // else `go_on` stopped it
  StepReport last;
  Validation validation;
  double seconds = 0;  // of training, including before a resume
};

// What the last bits of a run depend on: the CPU's vector instructions, or the GPU.
std::string target_of(const Context& context);

// The plan's task, with its text if it has one; fills in the text's mark if it has none, otherwise compares it.
std::unique_ptr<Task> task_of(Plan& plan);
// What a run of this model takes, on every rank: copies of the parameters, a pass, and bytes for other things.
struct RunMemory {
  int copies;
  model::Pass step;
  double more;
};
RunMemory memory_of(const model::Config& config, std::int64_t tokens, std::int64_t batch, std::int64_t parts,
                    std::int64_t heads = 1);
// Removes the files of a run, and no others, from a folder.
void remove_run(const std::filesystem::path& folder);

class Run {
 public:
  // Touches nothing until the plan is found valid. Refuses (input) a folder that is not empty, unless forced; then it
  // removes the files of an older run, and no others.
  static std::unique_ptr<Run> start(Context& context, Plan plan, const std::filesystem::path& folder, bool force,
                                    const RankGrid& ranks = {});
  // Continues from the last checkpoint, or from the beginning if there is none yet. On the same vector instructions,
  // with any number of threads, it ends with the same bits as an uninterrupted run.
  static std::unique_ptr<Run> resume(Context& context, const std::filesystem::path& folder, const Changes& changes = {},
                                     const RankGrid& ranks = {});

  const Plan& plan() const noexcept { return plan_; }
  const Task& task() const noexcept { return *task_; }
  const model::Transformer& model() const noexcept { return *model_; }
  const std::filesystem::path& folder() const noexcept { return folder_; }
  std::int64_t steps_taken() const noexcept { return trainer_.steps_taken(); }
  std::int64_t steps_saved() const noexcept { return saved_; }  // at the last checkpoint; 0: none yet

  // Trains until the plan is done or `go_on`, asked after every step, says no on some rank; either way it saves. Throws
  // Diverged: the last checkpoint is then the last good one.
  Outcome go(const std::function<bool(const StepReport&)>& go_on);

 private:
  Run(Context& context, Plan plan, std::unique_ptr<Task> task, const std::filesystem::path& folder,
      const RankGrid& ranks);
  void expect_agreement() const;
  void open(std::int64_t saved);  // the folder, to write into
  Validation validate();
  void checkpoint(double seconds);

  Context& context_;
  RankGrid ranks_;
  Plan plan_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<model::Transformer> model_;
  Trainer trainer_;
  std::filesystem::path folder_;
  std::optional<io::FolderLock> lock_;
  std::optional<Metrics> metrics_;
  Validation validation_;
  std::int64_t saved_ = 0;
};

}  // namespace polyhead::train
