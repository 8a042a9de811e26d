// The synthetic tasks that small transformers are trained on: each needs a kind of head that is known in advance.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/score.h"

namespace polyhead {
class Draws;
}

namespace polyhead::train {

enum class Split : std::uint8_t { train, validation };

// The word at `query` depends on the word at `key`, key < query. A language model needs the link one step earlier,
// where the word is predicted: at query - 1.
struct Link {
  int query = 0, key = 0;
  std::string relation;  // "subject-verb"
};

struct Sequence {
  std::vector<std::int32_t> tokens;   // at most the task's context; the rest of a batch's row is padding
  std::vector<std::int32_t> targets;  // for each token the next one, -1 where it does not count; or one class
  std::vector<Link> links;            // where the task knows them
};

// tokens i32 [B,T], padding is token 0; targets i32 [B,T], -1 does not count, or the class [B]; lengths i32 [B]: tokens
// that exist, absent if the task never pads.
using Batch = Examples;

struct TaskSummary {
  std::string name, summary;
};

struct TaskShape {
  std::int64_t vocabulary = 0, context = 0;
  std::int64_t classes = 0;  // 0: a language model
  bool padded = false;       // sequences may be shorter than the context
};

class Task {
 public:
  Task(TaskSummary about, std::uint64_t seed, const TaskShape& shape)
      : about_(std::move(about)), seed_(seed), shape_(shape) {}
  virtual ~Task() = default;

  const std::string& name() const noexcept { return about_.name; }
  const std::string& summary() const noexcept { return about_.summary; }
  std::uint64_t seed() const noexcept { return seed_; }
  const TaskShape& shape() const noexcept { return shape_; }
  std::int64_t vocabulary() const noexcept { return shape_.vocabulary; }
  std::int64_t context() const noexcept { return shape_.context; }
  std::int64_t classes() const noexcept { return shape_.classes; }

  // The accuracy of a perfect model over the targets that count, if it is known.
  virtual std::optional<double> best_score() const { return 1.0; }
  virtual std::string token_text(std::int32_t token) const = 0;  // for people
  // Tokens without a meaning of their own: the beginning, separators.
  virtual std::vector<std::int32_t> special_tokens() const { return {}; }

  // Pure functions of the seed and the arguments: a batch does not depend on earlier ones, and row b of batch `index`
  // is sequence b of that index, whatever the batch's size.
  Batch batch(Split split, std::uint64_t index, std::int64_t size) const;
  Batch batch_of(const std::vector<Sequence>& rows) const;  // at least one row
  Sequence sequence(Split split, std::uint64_t index, std::int64_t b) const;

 private:
  // Must not make the same sequence for both splits.
  virtual Sequence make(Split split, Draws& draws) const = 0;

  TaskSummary about_;
  std::uint64_t seed_;
  TaskShape shape_;
};

struct TaskOptions {
  std::string name;
  std::uint64_t seed = 1;
  std::int64_t context = 0;     // at most so many tokens in a sequence; 0: the task's own choice
  std::int64_t vocabulary = 0;  // 0: the task's own choice
  std::string text{};           // the bytes that task "text" is about
};

// Throws Error for an unknown name, or sizes that the task cannot have.
std::unique_ptr<Task> make_task(const TaskOptions& options);
std::vector<TaskSummary> task_list();

}  // namespace polyhead::train
