// A pruned model is the gated one, for every pattern of heads; curves are what they say they are.
#include "heads/pruning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "heads/small_models.h"
#include "io/scratch.h"

namespace polyhead::heads {
namespace {

void expect_equal(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n) ASSERT_NEAR(a[n], b[n], 2e-5) << what << " at " << n;
}

// All 64 patterns of a layer of four heads and one of two of the other, for own, grouped and single key/value heads.
TEST(WithoutHeads, IsTheGatedModelForEveryPattern) {
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    model::Config config = small(4, kv_heads, kv_heads != 2);
    config.layers[0].window = 5;
    if (kv_heads != 4) {  // as in Gemma; and with biases, which remain where all heads of a layer are gone
      config.norm = model::Norm::rms;
      config.sandwich = true;
      config.qk_norm = kv_heads == 2;
    }
    model::Transformer model = stirred(config);
    const Examples some = examples(config, "some");
    Context context(2);
    std::vector<Examples> all;
    all.push_back(examples(config, "others"));
    const std::vector<Tensor> means = mean_outputs(context, model, all);
    for (int pattern = 0; pattern < 64; ++pattern) {
      std::vector<HeadId> gone;
      for (int h = 0; h < 4; ++h) {
        if (pattern >> h & 1) gone.push_back({0, h});
      }
      if (pattern >> 4 & 1) gone.push_back({1, 0});
      if (pattern >> 5 & 1) gone.push_back({1, 3});
      model::Gates gates(config);
      gates.shut(gone);
      const auto smaller = without_heads(model, gone);
      EXPECT_EQ(smaller->config().head_count(), 8 - static_cast<std::int64_t>(gone.size()));
      const std::string what = std::to_string(kv_heads) + " kv heads, pattern " + std::to_string(pattern);
      expect_equal(logits(*smaller, some, nullptr), logits(model, some, gates.get()), what);
      std::vector<Tensor> shifts = shifts_of(model, means, gone);
      const auto held = without_heads(model, gone, &means);
      expect_equal(logits(*held, some, nullptr), logits(model, some, gates.get(), &shifts), what + ", means");
    }
  }
}

TEST(WithoutHeads, WholeLayersAndGroupsLeaveTheWeights) {
  model::Transformer model = stirred(small(4, 2, true));
  const auto group = without_heads(model, {{0, 0}, {0, 1}});
  EXPECT_EQ(group->config().layers[0], (model::LayerHeads{2, 1}));
  // 2 query heads and 1 key and 1 value head of 4 x 16, their biases, and 2 x 4 columns of W_O.
  EXPECT_EQ(model.parameter_count() - group->parameter_count(), 4 * (4 * 16 + 4) + 16 * 8);
  const auto none = without_heads(model, model::all_heads(model.config()));
  EXPECT_EQ(none->config().head_count(), 0);
  const auto uneven = without_heads(model, {{1, 2}});
  EXPECT_EQ(uneven->config().layers[1], (model::LayerHeads{3, 3}));
}

TEST(Prune, StopsWhenTheBudgetIsSpent) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> some, others;
  some.push_back(examples(config, "some"));
  others.push_back(examples(config, "others"));
  const PruneCurve all = prune(context, model, some, others, {.budget = 2});
  EXPECT_EQ(all.within_budget, 8u);
  EXPECT_EQ(all.removed().size(), 8u);
  const PruneCurve none = prune(context, model, some, others, {.budget = -1});
  EXPECT_EQ(none.steps.size(), 1u);
  EXPECT_EQ(none.within_budget, 0u);
  const PruneCurve curve = prune(context, model, some, others, {.budget = -1, .to_the_end = true});
  EXPECT_EQ(curve.steps.size(), 8u);
  // Without any head nothing depends on the order in which they went.
  for (const PruneOrder order : {PruneOrder::one_shot, PruneOrder::random}) {
    const PruneCurve other = prune(context, model, some, others, {.order = order, .budget = 2});
    EXPECT_NEAR(other.steps.back().loss, curve.steps.back().loss, 1e-6);
  }
  // Each step is the model with the gates of all those before it shut.
  model::Gates gates(config);
  for (const PruneStep& step : curve.steps) {
    gates.set(step.removed, 0);
    EXPECT_EQ(model::score(context, model, others, gates.get()).mean_loss(), step.loss);
  }
}

// A budget that is spent to the last target is not overspent; one that is overspent stays so, whatever comes back
// later.
TEST(Prune, ABudgetIsSpentOnce) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  int won_back = 0, exact = 0;
  for (int name = 0; name < 40; ++name) {
    std::vector<Examples> some;
    some.push_back(examples(config, std::to_string(name).c_str()));
    const PruneCurve whole = prune(context, model, some, some, {.budget = 2});
    double lowest = whole.accuracy;
    for (std::size_t n = 0; n < whole.steps.size(); ++n) {
      if (whole.steps[n].accuracy >= lowest) continue;
      lowest = whole.steps[n].accuracy;  // the deepest so far: a budget that is spent exactly here
      const auto with = [&](double budget) {
        return prune(context, model, some, some, {.budget = budget, .to_the_end = true}).within_budget;
      };
      EXPECT_GE(with(whole.accuracy - lowest), n + 1) << name << " " << n;
      EXPECT_EQ(with(whole.accuracy - lowest - 1e-6), n) << name << " " << n;
      ++exact;
      won_back += std::any_of(whole.steps.begin() + static_cast<std::ptrdiff_t>(n), whole.steps.end(),
                              [&](const PruneStep& later) { return later.accuracy > lowest; });
    }
  }
  EXPECT_GT(exact, 5);
  EXPECT_GT(won_back, 2) << "or the second budget proves nothing";
}

// Iterative: whatever goes is the least important of those that are left then. One-shot: in the order of the first
// look.
TEST(Prune, RanksAnewOrOnce) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  int differing = 0;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    std::vector<Examples> some, others;
    some.push_back(examples(config, name));
    others.push_back(examples(config, "others"));
    const auto order_of = [&](PruneOrder order) {
      std::vector<HeadId> order_found;
      for (const PruneStep& step : prune(context, model, some, others, {.order = order, .budget = 2}).steps) {
        order_found.push_back(step.removed);
      }
      return order_found;
    };
    const std::vector<HeadId> anew = order_of(PruneOrder::iterative), once = order_of(PruneOrder::one_shot);
    differing += anew != once;
    const auto importance_of = [](const std::vector<HeadImportance>& all, const HeadId& id) {
      return std::find_if(all.begin(), all.end(), [&](const HeadImportance& head) { return head.id == id; })
          ->normalised;
    };
    const std::vector<HeadImportance> first = gradient_importance(context, model, some);
    for (std::size_t n = 0; n < 8; ++n) {
      const std::vector<HeadImportance> now =
          gradient_importance(context, model, some, {anew.begin(), anew.begin() + static_cast<std::ptrdiff_t>(n)});
      for (std::size_t later = n; later < 8; ++later) {
        EXPECT_LE(importance_of(now, anew[n]), importance_of(now, anew[later])) << name << " " << n;
        EXPECT_LE(importance_of(first, once[n]), importance_of(first, once[later])) << name << " " << n;
      }
    }
  }
  EXPECT_GT(differing, 0) << "or ranking anew is not tested";
}

TEST(Prune, RandomOrdersAreThoseOfTheirSeeds) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> some;
  some.push_back(examples(config, "some"));
  std::set<std::vector<HeadId>> orders;
  std::set<HeadId> firsts;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    std::vector<HeadId> order;
    for (int again = 0; again < 2; ++again) {
      const PruneCurve curve =
          prune(context, model, some, some, {.order = PruneOrder::random, .seed = seed, .budget = 2});
      std::vector<HeadId> found;
      for (const PruneStep& step : curve.steps) found.push_back(step.removed);
      EXPECT_EQ((std::set<HeadId>(found.begin(), found.end()).size()), 8u) << "each once";
      if (again == 1) {
        EXPECT_EQ(found, order);
      }
      order = found;
    }
    orders.insert(order);
    firsts.insert(order[0]);
  }
  EXPECT_GT(orders.size(), 10u);
  EXPECT_GT(firsts.size(), 3u) << "any head may be the first";
}

// The order in which an iterative pruning with means must go: of those left, the pruned model has least use for each.
std::vector<HeadId> least_first(Context& context, const model::Transformer& model, const std::vector<Examples>& some,
                                const std::vector<Tensor>& means) {
  std::vector<HeadId> gone, left = model::all_heads(model.config());
  while (!left.empty()) {
    const std::vector<HeadImportance> heads = gradient_importance(context, *without_heads(model, gone, &means), some);
    const auto least = std::min_element(heads.begin(), heads.end(),
                                        [](const auto& a, const auto& b) { return a.normalised < b.normalised; });
    gone.push_back(left[static_cast<std::size_t>(least - heads.begin())]);
    left.erase(left.begin() + (least - heads.begin()));
  }
  return gone;
}

// With means every step is the model that without_heads makes of it, and so is what the order goes by.
TEST(Prune, MeansStayBehind) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  int differing = 0;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    std::vector<Examples> some, others;
    some.push_back(examples(config, name));
    others.push_back(examples(config, "others"));
    const std::vector<Tensor> means = mean_outputs(context, model, some);
    for (const PruneOrder order : {PruneOrder::iterative, PruneOrder::damage}) {
      std::vector<HeadId> gone, told;
      const PruneCurve curve = prune(context, model, some, others, {.order = order, .budget = 2, .means = &means},
                                     [&](const PruneStep& step) { told.push_back(step.removed); });
      ASSERT_EQ(curve.steps.size(), 8u);
      std::pair<double, double> last{0, 0};  // the accuracy lost and the loss, without one head
      for (const PruneStep& step : curve.steps) {
        gone.push_back(step.removed);
        const auto smaller = without_heads(model, gone, &means);
        EXPECT_NEAR(model::score(context, *smaller, others).mean_loss(), step.loss, 1e-5) << to_string(step.removed);
        if (order == PruneOrder::iterative) continue;
        const auto scores = model::score(context, *without_heads(model, {step.removed}, &means), some);
        const std::pair now{1 - scores.accuracy(), scores.mean_loss()};
        EXPECT_LE(last, now) << to_string(step.removed);
        last = now;
      }
      EXPECT_EQ(told, gone) << "step by step";
      if (order != PruneOrder::iterative) continue;
      EXPECT_EQ(gone, least_first(context, model, some, means)) << name;
      differing += gone != prune(context, model, some, others, {.budget = 2}).removed();
    }
  }
  EXPECT_GT(differing, 0) << "or the means decide nothing";
}

// Two heads to a key/value head: they go together, one step each, by their sum. One for all: each head for itself.
TEST(Prune, ReadersOfOneKeyHeadGoTogether) {
  const model::Config config = small(4, 2, true);
  model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> some, others;
  some.push_back(examples(config, "some"));
  others.push_back(examples(config, "others"));
  std::map<HeadId, double> first;
  for (const HeadImportance& head : gradient_importance(context, model, some)) first[head.id] = head.normalised;
  for (const PruneOrder order : {PruneOrder::iterative, PruneOrder::one_shot, PruneOrder::damage, PruneOrder::random}) {
    std::int64_t told = 0;
    const PruneCurve curve =
        prune(context, model, some, others, {.order = order, .budget = 2}, [&](const PruneStep&) { ++told; });
    ASSERT_EQ(curve.steps.size(), 8u);
    EXPECT_EQ(told, 8);
    std::vector<HeadId> gone;
    double last = 0;
    for (std::size_t n = 0; n < 8; n += 2) {
      const PruneStep &one = curve.steps[n], &other = curve.steps[n + 1];
      EXPECT_EQ(other.removed, (HeadId{one.removed.layer, one.removed.head + 1}));
      EXPECT_EQ(one.removed.head % 2, 0);
      EXPECT_EQ(one.loss, other.loss);
      gone.insert(gone.end(), {one.removed, other.removed});
      const auto smaller = without_heads(model, gone);
      EXPECT_NEAR(model::score(context, *smaller, others).mean_loss(), one.loss, 1e-5);
      EXPECT_LE(smaller->parameter_count(), model.parameter_count()) << "no head needs more than it had";
      if (order == PruneOrder::one_shot) {
        EXPECT_GE(first[one.removed] + first[other.removed], last);
        last = first[one.removed] + first[other.removed];
      }
    }
    const double least = std::min(curve.steps[1].accuracy, curve.steps[3].accuracy);
    const PruneCurve stopped =
        prune(context, model, some, others, {.order = order, .budget = curve.accuracy - least - 1e-6});
    EXPECT_EQ(stopped.within_budget % 2, 0u) << "both or none";
    EXPECT_EQ(stopped.steps.size() % 2, 0u);
  }
  const model::Transformer shared = stirred(small(4, 1, true));
  const PruneCurve singly = prune(context, shared, some, others, {.budget = -1});
  EXPECT_EQ(singly.steps.size(), 1u);
}

TEST(Prune, OfAnEncoderIsByWhatItsEmbeddingTurnsBy) {
  model::Config config = small(4, 4, true);
  config.kind = model::Kind::encoder;
  const model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> some, others;
  some.push_back(examples(config, "some"));
  others.push_back(examples(config, "others"));
  const auto whole = model::embeddings(context, model, others);
  std::map<HeadId, double> alone;
  for (const HeadImportance& head : embedding_importance(context, model, some)) alone[head.id] = head.zero.mean;
  const PruneCurve curve = prune(context, model, some, others, {.order = PruneOrder::damage, .budget = 2});
  EXPECT_EQ(curve.loss, 0);
  EXPECT_EQ(curve.accuracy, 1);
  ASSERT_EQ(curve.steps.size(), 8u);
  std::vector<HeadId> gone;
  double last = 0;
  for (const PruneStep& step : curve.steps) {
    EXPECT_GE(alone[step.removed], last - 1e-6) << to_string(step.removed);
    last = alone[step.removed];
    gone.push_back(step.removed);
    const auto left = model::embeddings(context, *without_heads(model, gone), others);
    EXPECT_NEAR(estimate(cosine_distances(whole, left, "the model")).mean, step.loss, 1e-5);
    EXPECT_EQ(step.accuracy, 1 - step.loss);
  }
  const double budget = curve.steps[2].loss + 1e-6;
  EXPECT_GE(prune(context, model, some, others, {.order = PruneOrder::damage, .budget = budget}).within_budget, 1u);
  EXPECT_EQ(prune(context, model, some, others, {.order = PruneOrder::random, .budget = 0}).within_budget, 0u);
  for (const PruneOrder order : {PruneOrder::iterative, PruneOrder::one_shot}) {
    io::expect_error(ErrorCode::value, {"damage or random", "encoder"},
                     [&] { prune(context, model, some, others, {.order = order}); });
  }
}

TEST(Prune, ByDamageTheMostHarmlessGoesFirst) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  int differing = 0;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    std::vector<Examples> some;
    some.push_back(examples(config, name));
    const PruneCurve curve = prune(context, model, some, some, {.order = PruneOrder::damage, .budget = 2});
    double accuracy = 2, loss = 0;
    for (const PruneStep& step : curve.steps) {
      model::Gates gates(config);
      gates.set(step.removed, 0);
      const model::SequenceScores without = model::score(context, model, some, gates.get());
      EXPECT_LE(without.accuracy(), accuracy) << to_string(step.removed);
      if (without.accuracy() == accuracy) {
        EXPECT_GE(without.mean_loss(), loss) << "of equal ones the least loss";
      }
      differing += without.accuracy() < accuracy && accuracy < 2;
      accuracy = without.accuracy();
      loss = without.mean_loss();
    }
  }
  EXPECT_GT(differing, 1) << "or the accuracy decides nothing";
}

}  // namespace
}  // namespace polyhead::heads
