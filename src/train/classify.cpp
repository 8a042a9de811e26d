// A bidirectional encoder reads three bits, each the value next to a marker: right after A, right before B, two after
// C. The class is the bits as a number. Markers stand anywhere, and values also stand where no marker asks for them, so
// that each marker needs an attention head with its own offset: +1, -1 and +2.
// Measured in PyTorch (one seed; two layers of width 128, 4 heads, the mean over positions classified, AdamW at 1e-3,
// batches of 64): 98% after 460 steps, with one layer after 640. With uniform attention it stays at a third, which is
// all that the words tell without their order.
#include "train/random_task.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

enum : std::int32_t { kCls, kMarkerA, kMarkerB, kMarkerC, kLow, kHigh, kFirstFiller };
const char* const kNames[] = {"CLS", "A", "B", "C", "low", "high"};

// The places of marker and value within their span, and the span's length.
struct Place {
  std::int32_t marker;
  std::int64_t marker_at, value_at, span;
};
constexpr Place kPlaces[] = {{kMarkerA, 0, 1, 2}, {kMarkerB, 1, 0, 2}, {kMarkerC, 0, 2, 3}};
constexpr std::int64_t kSpans = 2 + 2 + 3;

class Classify final : public RandomTask {
 public:
  using RandomTask::RandomTask;

  std::string token_text(std::int32_t token) const override {
    return token < kFirstFiller ? kNames[token] : letter(token - kFirstFiller);
  }
  std::vector<std::int32_t> special_tokens() const override { return {kCls}; }

 private:
  Sequence draw(Draws& draws) const override {
    Sequence sequence;
    std::vector<std::int32_t>& tokens = sequence.tokens;
    tokens = {kCls};
    // Values and fillers everywhere, for now even in the markers' places.
    while (std::ssize(tokens) < context()) tokens.push_back(kLow + draws.below(vocabulary() - kLow));

    // The three spans in any order and with any gaps: which of the (free + 3) slots each of them takes.
    const std::int64_t free = context() - 1 - kSpans;
    const std::vector<std::int32_t> slots = draws.distinct(3, 0, free + 3);
    std::int32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      std::int64_t begin = 1;
      for (std::int32_t slot = 0; slot < slots[i]; ++slot) begin += span_of(slot, slots);
      const Place& place = kPlaces[i];
      const std::int32_t bit = draws.below(2);
      tokens[static_cast<std::size_t>(begin + place.marker_at)] = place.marker;
      tokens[static_cast<std::size_t>(begin + place.value_at)] = kLow + bit;
      bits |= bit << i;
    }
    sequence.targets = {bits};
    return sequence;
  }

  // The tokens of a slot: one if it is free, else the span of a marker with its value.
  static std::int64_t span_of(std::int32_t slot, const std::vector<std::int32_t>& slots) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (slots[i] == slot) return kPlaces[i].span;
    }
    return 1;
  }
};

}  // namespace

std::unique_ptr<Task> make_classify(const TaskSummary& about, const TaskOptions& options) {
  const TaskShape shape = {.vocabulary = vocabulary_or(options, 16, kFirstFiller + 1),
                           .context = context_or(options, 16, 1 + kSpans),
                           .classes = 8};
  return std::make_unique<Classify>(about, options.seed, shape);
}

}  // namespace polyhead::train
