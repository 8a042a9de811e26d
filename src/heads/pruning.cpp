#include "heads/pruning.h"

#include <algorithm>

#include "core/philox.h"

namespace polyhead::heads {
namespace {

std::vector<HeadId> shuffled(std::vector<HeadId> heads, std::uint64_t seed) {
  for (std::size_t n = heads.size(); n > 1; --n) {
    const Philox::Words words = Philox::words(seed, {static_cast<std::uint32_t>(n), 0, 0x5b0ff1eu, 0});
    std::swap(heads[n - 1], heads[(static_cast<std::uint64_t>(words[0]) * n) >> 32]);
  }
  return heads;
}

// The heads that are left, the least important first. Gates of those that went are shut while it is found out.
std::vector<HeadId> ranked(Context& context, model::Transformer& model, const std::vector<model::Examples>& examples,
                           const std::vector<HeadId>& gone) {
  std::vector<Importance> heads = gradient_importance(context, model, examples, gone);
  std::erase_if(heads,
                [&](const Importance& head) { return std::find(gone.begin(), gone.end(), head.id) != gone.end(); });
  std::stable_sort(heads.begin(), heads.end(),
                   [](const Importance& a, const Importance& b) { return a.normalised < b.normalised; });
  std::vector<HeadId> ids;
  for (const Importance& head : heads) ids.push_back(head.id);
  return ids;
}

}  // namespace

std::vector<HeadId> PruneCurve::removed() const {
  std::vector<HeadId> heads;
  for (std::size_t n = 0; n < within_budget; ++n) heads.push_back(steps[n].removed);
  return heads;
}

PruneCurve prune(Context& context, model::Transformer& model, const std::vector<model::Examples>& ranking,
                 const std::vector<model::Examples>& judging, const PruneOptions& options,
                 const std::function<void(const PruneStep&)>& on_step) {
  const model::SequenceScores whole = model::score(context, model, judging);
  PruneCurve curve{whole.mean_loss(), whole.accuracy(), {}, 0};
  const std::size_t count = all_heads(model.config()).size();
  std::vector<HeadId> gone, order;
  Gates gates(model.config());
  bool spent = false;
  while (gone.size() < count && (!spent || options.to_the_end)) {
    if (order.empty()) {
      order = options.order == Order::random ? shuffled(all_heads(model.config()), options.seed)
                                             : ranked(context, model, ranking, gone);
    }
    const HeadId next = order.front();
    order.erase(order.begin());
    if (options.order == Order::iterative) order.clear();
    gone.push_back(next);
    gates.set(next, 0);
    const model::SequenceScores scores = model::score(context, model, judging, gates.get());
    curve.steps.push_back({next, scores.mean_loss(), scores.accuracy()});
    spent = spent || scores.accuracy() < curve.accuracy - options.budget;
    if (!spent) curve.within_budget = curve.steps.size();
    if (on_step) on_step(curve.steps.back());
  }
  return curve;
}

}  // namespace polyhead::heads
