#include "train/random_task.h"

namespace polyhead::train {
namespace {

// Well within the 32 bits of tokens and draws.
constexpr std::int64_t kMost = std::int64_t{1} << 24;

std::int64_t value_or(const TaskOptions& options, const char* what, std::int64_t given, std::int64_t own,
                      std::int64_t least) {
  if (given == 0) return own;
  if (given >= least && given <= kMost) return given;
  const std::string expected = given < least ? "at least " + std::to_string(least) : "at most " + std::to_string(kMost);
  throw Error(ErrorCode::value, "task " + options.name,
              std::string(what) + ": expected " + expected + ", found " + std::to_string(given));
}

}  // namespace

Split split_of(const std::vector<std::int32_t>& tokens) {
  std::uint64_t hash = tokens.size();
  for (const std::int32_t token : tokens) {  // the finaliser of SplitMix64 after every token
    hash = (hash ^ static_cast<std::uint32_t>(token)) + 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    hash ^= hash >> 31;
  }
  return hash % 8 == 0 ? Split::validation : Split::train;
}

Sequence RandomTask::make(Split split, Draws& draws) const {
  constexpr int kTries = 1000;  // (7/8)^1000 is 1e-58: only a task with hardly any sequences runs out
  for (int n = 0; n < kTries; ++n) {
    Sequence sequence = draw(draws);
    if (split_of(sequence.tokens) == split) return sequence;
  }
  throw Error(ErrorCode::value, "task " + name(),
              "expected sequences for training and others for validation, found too few different ones with context " +
                  std::to_string(context()) + " and vocabulary " + std::to_string(vocabulary()));
}

Sequence uncounted(const std::vector<std::int32_t>& text) {
  return {{text.begin(), text.end() - 1}, std::vector<std::int32_t>(text.size() - 1, -1), {}};
}

std::string letter(std::int64_t index) {
  const std::string name(1, static_cast<char>('a' + index % 26));
  return index < 26 ? name : name + std::to_string(index / 26);
}

std::int64_t context_or(const TaskOptions& options, std::int64_t own, std::int64_t least) {
  return value_or(options, "context", options.context, own, least);
}
std::int64_t vocabulary_or(const TaskOptions& options, std::int64_t own, std::int64_t least) {
  return value_or(options, "vocabulary", options.vocabulary, own, least);
}

}  // namespace polyhead::train
