// BOS x_1 .. x_n SEP x_1 .. x_n: only the second string counts.
#include "train/random_task.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

enum : std::int32_t { kBos, kSep, kFirstSymbol };

class Copy final : public RandomTask {
 public:
  Copy(const TaskSummary& about, std::uint64_t seed, std::int64_t symbols, std::int64_t n)
      : RandomTask(about, seed, {.vocabulary = kFirstSymbol + symbols, .context = 2 * n + 1}),
        symbols_(symbols),
        n_(static_cast<std::size_t>(n)) {}

  std::string token_text(std::int32_t token) const override {
    if (token == kBos) return "BOS";
    return token == kSep ? "SEP" : letter(token - kFirstSymbol);
  }
  std::vector<std::int32_t> special_tokens() const override { return {kBos, kSep}; }

 private:
  Sequence draw(Draws& draws) const override {
    std::vector<std::int32_t> text = {kBos};
    for (std::size_t i = 0; i < n_; ++i) text.push_back(kFirstSymbol + draws.below(symbols_));
    text.push_back(kSep);
    for (std::size_t i = 1; i <= n_; ++i) text.push_back(text[i]);
    Sequence sequence = uncounted(text);
    for (std::size_t i = n_ + 1; i < sequence.targets.size(); ++i) sequence.targets[i] = text[i + 1];
    return sequence;
  }

  std::int64_t symbols_;
  std::size_t n_;
};

}  // namespace

std::unique_ptr<Task> make_copy(const TaskSummary& about, const TaskOptions& options) {
  const std::int64_t context = context_or(options, 33, 5);
  const std::int64_t symbols = vocabulary_or(options, 32, kFirstSymbol + 2) - kFirstSymbol;
  return std::make_unique<Copy>(about, options.seed, symbols, (context - 1) / 2);
}

}  // namespace polyhead::train
