// Associative recall with many queries (MQAR, Arora et al. 2023): BOS k_1 v_1 .. k_n v_n, then all keys again in
// another order, each followed by its value. Those values count.
#include <algorithm>
#include <utility>

#include "train/random_task.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

enum : std::int32_t { kBos, kFirstKey };

class Recall final : public RandomTask {
 public:
  Recall(const TaskSummary& about, std::uint64_t seed, std::int64_t vocabulary, std::int64_t pairs)
      : RandomTask(about, seed, {.vocabulary = vocabulary, .context = 4 * pairs}),
        pairs_(pairs),
        first_value_(kFirstKey + (vocabulary - kFirstKey) / 2) {}

  std::string token_text(std::int32_t token) const override {
    if (token == kBos) return "BOS";
    if (token < first_value_) return "k" + std::to_string(token - kFirstKey);
    return "v" + std::to_string(token - first_value_);
  }
  std::vector<std::int32_t> special_tokens() const override { return {kBos}; }

 private:
  Sequence draw(Draws& draws) const override {
    std::vector<std::int32_t> text = {kBos};
    for (const std::int32_t key : draws.distinct(pairs_, kFirstKey, first_value_ - kFirstKey)) {
      text.push_back(key);
      text.push_back(static_cast<std::int32_t>(first_value_) + draws.below(vocabulary() - first_value_));
    }
    std::vector<Link> links;
    for (const std::int32_t pair : draws.distinct(pairs_, 0, pairs_)) {
      const int value = 2 * pair + 2;  // where the value stands
      text.push_back(text[static_cast<std::size_t>(value) - 1]);
      links.push_back({static_cast<int>(text.size()), value, "value"});
      text.push_back(text[static_cast<std::size_t>(value)]);
    }
    Sequence sequence = uncounted(text);
    for (const Link& link : links) {
      const auto query = static_cast<std::size_t>(link.query);
      sequence.targets[query - 1] = text[query];
    }
    links.pop_back();  // the last value is only a target: it has no row
    sequence.links = std::move(links);
    return sequence;
  }

  std::int64_t pairs_, first_value_;
};

}  // namespace

std::unique_ptr<Task> make_recall(const TaskSummary& about, const TaskOptions& options) {
  const std::int64_t pairs = context_or(options, 32, 8) / 4;
  // At least as many keys as pairs, and at least as many values as keys.
  const std::int64_t vocabulary = vocabulary_or(options, 1 + std::max<std::int64_t>(64, 4 * pairs), 1 + 2 * pairs);
  return std::make_unique<Recall>(about, options.seed, vocabulary, pairs);
}

}  // namespace polyhead::train
