// BOS and a segment of different symbols, repeated until the context is full. From the first symbol of the second copy
// on, the next token is the one that followed last time, and counts.
#include <algorithm>

#include "train/random_task.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

enum : std::int32_t { kBos, kFirstSymbol };
constexpr std::int64_t kContext = 64, kVocabulary = 64, kShortest = 8, kLongest = 32;

class Repeat final : public RandomTask {
 public:
  Repeat(const TaskSummary& about, std::uint64_t seed, const TaskShape& shape, std::int64_t shortest,
         std::int64_t longest)
      : RandomTask(about, seed, shape), shortest_(shortest), longest_(longest) {}

  std::string token_text(std::int32_t token) const override {
    return token == kBos ? "BOS" : letter(token - kFirstSymbol);
  }
  std::vector<std::int32_t> special_tokens() const override { return {kBos}; }

 private:
  Sequence draw(Draws& draws) const override {
    const auto length = static_cast<std::size_t>(draws.between(shortest_, longest_));
    const auto segment = draws.distinct(static_cast<std::int64_t>(length), kFirstSymbol, vocabulary() - kFirstSymbol);
    const auto t = static_cast<std::size_t>(context());
    std::vector<std::int32_t> text = {kBos};
    for (std::size_t i = 0; i < t; ++i) text.push_back(segment[i % length]);
    Sequence sequence = uncounted(text);
    for (std::size_t i = length + 1; i < t; ++i) sequence.targets[i] = text[i + 1];
    return sequence;
  }

  std::int64_t shortest_, longest_;
};

std::unique_ptr<Task> make_either(const TaskSummary& about, const TaskOptions& options, bool fixed) {
  const TaskShape shape = {.vocabulary = vocabulary_or(options, kVocabulary, kFirstSymbol + 3),
                           .context = context_or(options, kContext, 6)};
  const std::int64_t longest = std::min({kLongest, shape.context / 2, shape.vocabulary - kFirstSymbol});
  const std::int64_t shortest = fixed ? longest : std::min(kShortest, longest / 2 + 1);
  return std::make_unique<Repeat>(about, options.seed, shape, shortest, longest);
}

}  // namespace

std::unique_ptr<Task> make_repeat(const TaskSummary& about, const TaskOptions& options) {
  return make_either(about, options, false);
}
std::unique_ptr<Task> make_repeat_fixed(const TaskSummary& about, const TaskOptions& options) {
  return make_either(about, options, true);
}

}  // namespace polyhead::train
