// Bounded Dyck-(k,m): BOS and brackets of k kinds, nested at most m deep (Yao et al. 2021). The kind of a closing
// bracket is determined by the one that it closes, and counts. Whether a bracket closes is left to chance, so opening
// ones do not count.
#include "train/random_task.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

enum : std::int32_t { kBos, kFirstBracket };  // then "(0", ")0", "(1", ")1" ...
constexpr std::size_t kDepth = 8;

class Dyck final : public RandomTask {
 public:
  Dyck(const TaskSummary& about, std::uint64_t seed, std::int64_t kinds, std::int64_t context)
      : RandomTask(about, seed, {.vocabulary = kFirstBracket + 2 * kinds, .context = context}), kinds_(kinds) {}

  std::string token_text(std::int32_t token) const override {
    if (token == kBos) return "BOS";
    const std::int32_t bracket = token - kFirstBracket;
    return (bracket % 2 == 0 ? "(" : ")") + std::to_string(bracket / 2);
  }
  std::vector<std::int32_t> special_tokens() const override { return {kBos}; }

 private:
  Sequence draw(Draws& draws) const override {
    const auto t = static_cast<std::size_t>(context());
    std::vector<std::int32_t> text = {kBos};
    std::vector<std::size_t> open;  // positions of the brackets that are still open
    std::vector<Link> links;
    while (text.size() <= t) {
      const std::size_t here = text.size();
      if (!open.empty() && (open.size() == kDepth || draws.one_in(2))) {
        links.push_back({static_cast<int>(here), static_cast<int>(open.back()), "closes"});
        text.push_back(text[open.back()] + 1);
        open.pop_back();
      } else {
        open.push_back(here);
        text.push_back(kFirstBracket + 2 * draws.below(kinds_));
      }
    }
    Sequence sequence = uncounted(text);
    for (const Link& link : links) {
      const auto closing = static_cast<std::size_t>(link.query);
      sequence.targets[closing - 1] = text[closing];
    }
    // The token after the last one is a target but not part of the sequence, so it has no link.
    if (!links.empty() && links.back().query == static_cast<int>(t)) links.pop_back();
    sequence.links = std::move(links);
    return sequence;
  }

  std::int64_t kinds_;
};

}  // namespace

std::unique_ptr<Task> make_dyck(const TaskSummary& about, const TaskOptions& options) {
  const std::int64_t kinds = (vocabulary_or(options, 17, kFirstBracket + 4) - kFirstBracket) / 2;
  return std::make_unique<Dyck>(about, options.seed, kinds, context_or(options, 64, 8));
}

}  // namespace polyhead::train
