#include "heads/pruning.h"

#include <algorithm>

#include "core/draws.h"

namespace polyhead::heads {
namespace {

std::vector<HeadId> shuffled(std::vector<HeadId> heads, std::uint64_t seed) {
  constexpr std::uint32_t kDomain = 0x5b0ff1eu;  // apart from others who may be given the same seed
  Draws(seed, 0, 0, kDomain).shuffle(heads);
  return heads;
}

// The model's scores without these heads; with means those are what they give.
model::SequenceScores score_without(Context& context, const model::Transformer& model,
                                    const std::vector<Examples>& examples, const std::vector<HeadId>& gone,
                                    const std::vector<Tensor>* means) {
  model::Gates gates(model.config());
  gates.shut(gone);
  std::vector<Tensor> shifts;
  if (means != nullptr) shifts = shifts_of(model, *means, gone);
  model::SequenceScores scores =
      model::score(context, model, examples, gates.get(), means == nullptr ? nullptr : &shifts);
  scores.expect_finite("the model without " + std::to_string(gone.size()) + " of its heads, " + to_string(gone.back()) +
                       " the last of them");
  return scores;
}

// The heads that are left, those without which the least is lost first. Those that went are out while it is found out.
class Ranking {
 public:
  Ranking(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
          const PruneOptions& options)
      : context_(context), model_(model), examples_(examples), options_(options) {}

  std::vector<HeadId> operator()(const std::vector<HeadId>& gone) const {
    switch (options_.order) {
      case PruneOrder::random: return shuffled(model::all_heads(model_.config()), options_.seed);
      case PruneOrder::damage: return by_damage();
      case PruneOrder::iterative:
      case PruneOrder::one_shot: break;
    }
    return by_gradient(gone);
  }

 private:
  std::vector<HeadId> by_gradient(const std::vector<HeadId>& gone) const {
    std::vector<HeadImportance> heads = gradient_importance(context_, model_, examples_, gone, options_.means);
    std::erase_if(
        heads, [&](const HeadImportance& head) { return std::find(gone.begin(), gone.end(), head.id) != gone.end(); });
    std::stable_sort(heads.begin(), heads.end(),
                     [](const HeadImportance& a, const HeadImportance& b) { return a.normalised < b.normalised; });
    std::vector<HeadId> ids;
    for (const HeadImportance& head : heads) ids.push_back(head.id);
    return ids;
  }
  std::vector<HeadId> by_damage() const {
    struct Without {
      HeadId id;
      double accuracy, loss;
    };
    std::vector<Without> each;
    for (const HeadId& id : model::all_heads(model_.config())) {
      const model::SequenceScores scores = score_without(context_, model_, examples_, {id}, options_.means);
      each.push_back({id, scores.accuracy(), scores.mean_loss()});
    }
    std::stable_sort(each.begin(), each.end(), [](const Without& a, const Without& b) {
      return a.accuracy != b.accuracy ? a.accuracy > b.accuracy : a.loss < b.loss;
    });
    std::vector<HeadId> ids;
    for (const Without& one : each) ids.push_back(one.id);
    return ids;
  }

  Context& context_;
  const model::Transformer& model_;
  const std::vector<Examples>& examples_;
  const PruneOptions& options_;
};

}  // namespace

PruneCurve prune(Context& context, const model::Transformer& model, const std::vector<Examples>& ranking,
                 const std::vector<Examples>& judging, const PruneOptions& options,
                 const std::function<void(const PruneStep&)>& on_step) {
  const model::SequenceScores whole = model::score(context, model, judging);
  whole.expect_finite("the model");
  PruneCurve curve{whole.mean_loss(), whole.accuracy(), {}, 0};
  const std::size_t count = model::all_heads(model.config()).size();
  const Ranking rank(context, model, ranking, options);
  std::vector<HeadId> gone, order;
  bool spent = false;
  while (gone.size() < count && (!spent || options.to_the_end)) {
    if (order.empty()) order = rank(gone);
    const HeadId next = order.front();
    order.erase(order.begin());
    if (options.order == PruneOrder::iterative) order.clear();
    gone.push_back(next);
    const model::SequenceScores scores = score_without(context, model, judging, gone, options.means);
    curve.steps.push_back({next, scores.mean_loss(), scores.accuracy()});
    // Accuracies are quotients: what is spent to the last is not overspent for a rounding.
    constexpr double kRounding = 1e-12;
    spent = spent || scores.accuracy() < curve.accuracy - options.budget - kRounding;
    if (!spent) curve.within_budget = curve.steps.size();
    if (on_step) on_step(curve.steps.back());
  }
  return curve;
}

}  // namespace polyhead::heads
