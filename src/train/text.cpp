// The bytes of a text, in windows that begin anywhere. The last tenth is for validation; every byte counts.
#include <cstdint>

#include "train/random_task.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

class Text final : public Task {
 public:
  Text(const TaskSummary& about, std::uint64_t seed, std::int64_t context, std::string bytes)
      : Task(about, seed, {.vocabulary = 256, .context = context}), bytes_(std::move(bytes)) {}

  std::optional<double> best_score() const override { return std::nullopt; }

  std::string token_text(std::int32_t token) const override {
    if (token == '\n') return "\\n";
    if (token == ' ') return "␣";
    if (token > ' ' && token < 127) return std::string(1, static_cast<char>(token));
    const char* const digits = "0123456789abcdef";
    return std::string("\\x") + digits[token / 16 % 16] + digits[token % 16];
  }

  // The first byte of the validation part.
  static std::int64_t boundary(const std::string& bytes) { return std::ssize(bytes) - std::ssize(bytes) / 10; }

 private:
  Sequence make(Split split, Draws& draws) const override {
    const std::int64_t middle = boundary(bytes_);
    const std::int64_t first = split == Split::train ? 0 : middle;
    const std::int64_t end = split == Split::train ? middle : std::ssize(bytes_);
    const std::int64_t begin = draws.between(first, end - context() - 1);
    Sequence sequence;
    for (std::int64_t i = begin; i < begin + context(); ++i) {
      sequence.tokens.push_back(byte(i));
      sequence.targets.push_back(byte(i + 1));
    }
    return sequence;
  }
  std::int32_t byte(std::int64_t i) const { return static_cast<unsigned char>(bytes_[static_cast<std::size_t>(i)]); }

  std::string bytes_;
};

}  // namespace

std::unique_ptr<Task> make_text(const TaskSummary& about, const TaskOptions& options) {
  const std::string op = "task " + options.name;
  if (options.vocabulary != 0 && options.vocabulary != 256) {
    throw Error(ErrorCode::value, op, "vocabulary: expected 256, found " + std::to_string(options.vocabulary));
  }
  if (options.text.empty()) {
    throw Error(ErrorCode::value, op, "text: expected the bytes of a file, found none; name a file that is not empty");
  }
  const std::int64_t context = context_or(options, 128, 1);
  const std::int64_t bytes = std::ssize(options.text), least = 10 * (context + 1), most = INT32_MAX;
  if (bytes < least || bytes > most) {
    throw Error(ErrorCode::value, op,
                "text: expected " + std::to_string(least) + " to " + std::to_string(most) + " bytes for a context of " +
                    std::to_string(context) + ", found " + std::to_string(bytes) +
                    (bytes < least ? "; take a longer text or a shorter context" : "; take a part of it"));
  }
  return std::make_unique<Text>(about, options.seed, context, options.text);
}

}  // namespace polyhead::train
