#include "heads/pruning.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/draws.h"

namespace polyhead::heads {
namespace {

using Group = std::vector<HeadId>;

// Heads that go together: those that share a key/value head, if the layer has several of those. Removing only one of
// them would leave unequal groups, and then every head would need its own key/value head.
std::vector<Group> groups_of(const model::Config& config) {
  std::vector<Group> groups;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const model::LayerHeads& heads = config.layers[layer];
    const std::int64_t size = heads.kv_heads > 1 ? heads.heads / heads.kv_heads : 1;
    for (std::int64_t h = 0; h < heads.heads; ++h) {
      if (h % size == 0) groups.emplace_back();
      groups.back().push_back({layer, h});
    }
  }
  return groups;
}

std::vector<Group> shuffled(std::vector<Group> groups, std::uint64_t seed) {
  constexpr std::uint32_t kDomain = 0x5b0ff1eu;  // separate from other users of the same seed
  Draws(seed, 0, 0, kDomain).shuffle(groups);
  return groups;
}

struct Verdict {
  double loss, accuracy;
};

// Scores a model without some heads on examples; with means, those heads give their means. An encoder gives no answers:
// its loss is the cosine distance of its embeddings, its accuracy 1 minus that.
class Judge {
 public:
  Judge(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
        const std::vector<Tensor>* means)
      : context_(context), model_(model), examples_(examples), means_(means) {
    if (is_encoder()) whole_ = model::embeddings(context, model, examples);
  }

  Verdict operator()(const std::vector<HeadId>& gone) const {
    model::Gates gates(model_.config());
    gates.shut(gone);
    std::vector<Tensor> shifts;
    if (means_ != nullptr) shifts = shifts_of(model_, *means_, gone);
    std::vector<Tensor>* held = means_ == nullptr ? nullptr : &shifts;
    if (is_encoder()) {
      const auto left = model::embeddings(context_, model_, examples_, gates.get(), held);
      const double distance = estimate(cosine_distances(whole_, left, without_text(gone))).mean;
      return {distance, 1 - distance};
    }
    const model::SequenceScores scores = model::score(context_, model_, examples_, gates.get(), held);
    scores.expect_finite(without_text(gone));
    return {scores.mean_loss(), scores.accuracy()};
  }

 private:
  static std::string without_text(const std::vector<HeadId>& gone) {
    if (gone.empty()) return "the model";
    return "the model without " + std::to_string(gone.size()) + " of its heads, " + to_string(gone.back()) +
           " the last of them";
  }
  bool is_encoder() const { return model_.config().kind == model::Kind::encoder; }

  Context& context_;
  const model::Transformer& model_;
  const std::vector<Examples>& examples_;
  const std::vector<Tensor>* means_;
  std::vector<std::vector<double>> whole_;
};

// The groups in the order of their removal, the least important first. Gradients are those of the model without `gone`.
class Ranking {
 public:
  Ranking(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
          const PruneOptions& options)
      : context_(context), model_(model), examples_(examples), options_(options) {}

  std::vector<Group> operator()(const std::vector<HeadId>& gone) const {
    switch (options_.order) {
      case PruneOrder::random: return shuffled(groups_of(model_.config()), options_.seed);
      case PruneOrder::damage: return by_damage();
      case PruneOrder::iterative:
      case PruneOrder::one_shot: break;
    }
    return by_gradient(gone);
  }

 private:
  std::vector<Group> by_gradient(const std::vector<HeadId>& gone) const {
    std::map<HeadId, double> importance;
    for (const HeadImportance& head : gradient_importance(context_, model_, examples_, gone, options_.means)) {
      importance[head.id] = head.normalised;
    }
    const auto sum_of = [&](const Group& group) {
      double sum = 0;
      for (const HeadId& id : group) sum += importance.at(id);
      return sum;
    };
    std::vector<Group> groups = groups_of(model_.config());
    std::erase_if(groups,
                  [&](const Group& group) { return std::find(gone.begin(), gone.end(), group.front()) != gone.end(); });
    std::stable_sort(groups.begin(), groups.end(),
                     [&](const Group& a, const Group& b) { return sum_of(a) < sum_of(b); });
    return groups;
  }
  std::vector<Group> by_damage() const {
    const Judge judge(context_, model_, examples_, options_.means);
    std::vector<std::pair<Group, Verdict>> each;
    for (Group& group : groups_of(model_.config())) each.emplace_back(std::move(group), Verdict{});
    std::vector<std::string> verdicts(each.size());  // the bytes of one each
    options_.ranks->share(std::ssize(each), [&](std::int64_t job) {
      const auto n = static_cast<std::size_t>(job);
      const Verdict without = judge(each[n].first);
      verdicts[n].assign(reinterpret_cast<const char*>(&without), sizeof without);
    });
    complete(*options_.ranks, verdicts);
    for (std::size_t n = 0; n < each.size(); ++n) std::memcpy(&each[n].second, verdicts[n].data(), sizeof(Verdict));
    std::stable_sort(each.begin(), each.end(), [](const auto& a, const auto& b) {
      const Verdict &x = a.second, &y = b.second;
      return x.accuracy != y.accuracy ? x.accuracy > y.accuracy : x.loss < y.loss;
    });
    std::vector<Group> groups;
    for (auto& [group, without] : each) groups.push_back(std::move(group));
    return groups;
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
  const bool by_gradient = options.order == PruneOrder::iterative || options.order == PruneOrder::one_shot;
  if (by_gradient && model.config().kind == model::Kind::encoder) {
    throw Error(ErrorCode::value, "prune",
                "expected the order damage or random for an encoder, which has no loss that gradients could rank by");
  }
  const Judge judge(context, model, judging, options.means);
  const Verdict whole = judge({});
  PruneCurve curve{whole.loss, whole.accuracy, {}, 0};
  const std::size_t count = model::all_heads(model.config()).size();
  const Ranking rank(context, model, ranking, options);
  std::vector<HeadId> gone;
  std::vector<Group> order;
  bool spent = false;
  while (gone.size() < count && (!spent || options.to_the_end)) {
    if (order.empty()) order = rank(gone);
    const Group next = order.front();
    order.erase(order.begin());
    if (options.order == PruneOrder::iterative) order.clear();
    gone.insert(gone.end(), next.begin(), next.end());
    const Verdict left = judge(gone);
    // Accuracies are quotients: a budget that is spent exactly must not count as exceeded by a rounding error.
    constexpr double kRounding = 1e-12;
    spent = spent || left.accuracy < curve.accuracy - options.budget - kRounding;
    for (const HeadId& id : next) {
      curve.steps.push_back({id, left.loss, left.accuracy});
      if (on_step) on_step(curve.steps.back());
    }
    if (!spent) curve.within_budget = curve.steps.size();
  }
  return curve;
}

}  // namespace polyhead::heads
