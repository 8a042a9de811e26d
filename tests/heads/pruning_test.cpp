// A pruned model is the gated one, for every pattern of heads; importance is what it says it is.
#include "heads/pruning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "io/scratch.h"
#include "support/random.h"

namespace polyhead::heads {
namespace {

model::Config small(std::int64_t heads, std::int64_t kv_heads, bool bias) {
  model::Config config = model::make_config(model::Kind::gpt, 2, 16, heads);
  for (model::LayerHeads& layer : config.layers) layer.kv_heads = kv_heads;
  config.vocabulary = 11;
  config.context = 12;
  config.hidden = 20;
  config.bias = bias;
  return config;
}

model::Transformer stirred(const model::Config& config) {
  model::Transformer model(config, 3);
  test::Random random("stirred");
  for (autograd::Parameter* parameter : model.parameters()) test::fill_normal(parameter->value, random, 0.3);
  return model;
}

Examples examples(const model::Config& config, const char* name) {
  test::Random random(name);
  Examples some{Tensor::empty({6, 12}, DType::i32), Tensor::empty({6, 12}, DType::i32), Tensor()};
  for (const TensorView& tensor : {some.tokens.view(), some.targets.view()}) {
    test::fill_with(tensor, [&] { return static_cast<double>(random.below(config.vocabulary)); });
  }
  return some;
}

std::vector<double> logits(model::Transformer& model, const Examples& some, std::vector<Tensor>* gates,
                           std::vector<Tensor>* shifts = nullptr) {
  Context context(2);
  autograd::Tape tape(context, false);
  const ConstTensorView found = tape.value(model.forward(tape, some.tokens, {.gates = gates, .shifts = shifts}));
  return {found.as<float>(), found.as<float>() + found.count()};
}

void expect_equal(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n) ASSERT_NEAR(a[n], b[n], 2e-5) << what << " at " << n;
}

// All 64 patterns of a layer of four heads and one of two of the other, for own, grouped and single key/value heads.
TEST(WithoutHeads, IsTheGatedModelForEveryPattern) {
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    model::Config config = small(4, kv_heads, kv_heads != 2);
    config.layers[0].window = 5;
    if (kv_heads == 2) {  // as in Gemma
      config.norm = model::Norm::rms;
      config.sandwich = config.qk_norm = true;
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

TEST(Importance, GradientIsTheSlopeOfEachSequencesLoss) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> all;
  all.push_back(examples(config, "some"));
  const std::vector<HeadImportance> found = gradient_importance(context, model, all);
  ASSERT_EQ(found.size(), 8u);
  for (const HeadImportance& head : found) {
    constexpr float kStep = 0.02f;
    model::Gates above(config), below(config);
    above.set(head.id, 1 + kStep);
    below.set(head.id, 1 - kStep);
    const auto more = model::score(context, model, all, above.get()),
               less = model::score(context, model, all, below.get());
    double slope = 0;
    for (std::size_t b = 0; b < 6; ++b) slope += std::abs(more.losses[b] - less.losses[b]) / (2 * kStep) / 6;
    EXPECT_NEAR(head.gradient, slope, 0.01 * slope + 1e-4) << to_string(head.id);
  }
  for (std::size_t layer = 0; layer < 2; ++layer) {
    double squares = 0;
    for (const HeadImportance& head : found) squares += head.id.layer == layer ? head.normalised * head.normalised : 0;
    EXPECT_NEAR(squares, 1, 1e-9);
  }
}

// With heads gone, what is left is ranked as in the model that never had them.
TEST(Importance, OfTheRestIsThatOfThePrunedModel) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> all;
  all.push_back(examples(config, "some"));
  const std::vector<HeadId> gone{{0, 1}, {0, 2}, {1, 0}};
  const auto smaller = without_heads(model, gone);
  const std::vector<HeadImportance> gated = gradient_importance(context, model, all, gone),
                                    pruned = gradient_importance(context, *smaller, all);
  std::size_t n = 0;
  for (const HeadImportance& head : gated) {
    if (std::find(gone.begin(), gone.end(), head.id) != gone.end()) continue;
    EXPECT_NEAR(head.normalised, pruned[n++].normalised, 1e-4) << to_string(head.id);
  }
  EXPECT_EQ(n, pruned.size());
}

TEST(Importance, DamageIsWhatTheLossGains) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> all;
  for (const char* name : {"some", "more"}) all.push_back(examples(config, name));
  const double whole = model::score(context, model, all).mean_loss();
  std::int64_t told = 0;
  for (const HeadImportance& head :
       importance(context, model, all, {.on_head = [&](std::int64_t done) { EXPECT_EQ(done, ++told); }})) {
    const auto smaller = without_heads(model, {head.id});
    EXPECT_NEAR(head.zero.mean, model::score(context, *smaller, all).mean_loss() - whole, 1e-5);
    EXPECT_LE(head.zero.low, head.zero.mean);
    EXPECT_GE(head.zero.high, head.zero.mean);
    EXPECT_LT(head.zero.high - head.zero.low, 2);
    const std::vector<Tensor> means = mean_outputs(context, model, all);
    const auto held = without_heads(model, {head.id}, &means);
    EXPECT_NEAR(head.mean.mean, model::score(context, *held, all).mean_loss() - whole, 1e-5);
    const double before = model::score(context, model, all).accuracy();
    const auto logit = [&](model::Transformer& one) {
      const std::vector<double> logits = model::score(context, one, all).logits;
      return std::accumulate(logits.begin(), logits.end(), 0.0) / static_cast<double>(logits.size());
    };
    EXPECT_NEAR(head.logit.mean, logit(model) - logit(*smaller), 1e-5) << "what it adds, not what it takes";
    EXPECT_NEAR(head.accuracy_loss, before - model::score(context, *smaller, all).accuracy(), 1e-12);
  }
}

// Without means the rest is as before; coarse products come near it, and a head that does nothing still does none.
TEST(Importance, CanBeHadForLess) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  const std::int64_t D = config.head_dim, inner = 4 * D;  // head 1.2 writes nothing
  auto* out = model.attention_parameters(1).out_proj_weight->value.as<float>();
  for (std::int64_t c = 0; c < config.width; ++c) std::fill_n(out + c * inner + 2 * D, D, 0.0f);
  Context context(2);
  std::vector<Examples> all;
  for (const char* name : {"some", "more"}) all.push_back(examples(config, name));
  const std::vector<HeadImportance> both = importance(context, model, all),
                                    zero = importance(context, model, all, {.means = false}),
                                    coarse = importance(context, model, all,
                                                        {.means = false, .products = ops::Products::coarse});
  ASSERT_EQ(zero.size(), both.size());
  for (std::size_t n = 0; n < both.size(); ++n) {
    EXPECT_EQ(zero[n].zero.mean, both[n].zero.mean);
    EXPECT_EQ(zero[n].gradient, both[n].gradient);
    EXPECT_EQ(zero[n].mean.mean, 0);
    EXPECT_NEAR(coarse[n].zero.mean, both[n].zero.mean, 0.02 * std::abs(both[n].zero.mean) + 2e-3);
  }
  EXPECT_EQ(coarse[6].zero.mean, 0) << "with it and without it are rounded alike";
  EXPECT_GT(std::abs(coarse[5].zero.mean), 0);
}

// The embedding of the model without a head turns by what is said.
TEST(Importance, OfAnEncoderIsWhatItsEmbeddingTurnsBy) {
  model::Config config = small(4, 4, true);
  config.kind = model::Kind::encoder;
  config.post_norm = config.embedding_norm = true;
  config.feed_forward = model::FeedForward::erf_gelu;
  model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> all;
  all.push_back(examples(config, "some"));
  const auto whole = model::embeddings(context, model, all);
  const std::vector<Tensor> means = mean_outputs(context, model, all);
  std::int64_t told = 0;
  const std::vector<HeadImportance> found =
      embedding_importance(context, model, all, {.on_head = [&](std::int64_t done) { EXPECT_EQ(done, ++told); }});
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(told, 8);
  const auto turned = [&](const model::Transformer& other) {
    const auto now = model::embeddings(context, other, all);
    double sum = 0;
    for (std::size_t n = 0; n < whole.size(); ++n) {
      double ab = 0, aa = 0, bb = 0;
      for (std::size_t c = 0; c < whole[n].size(); ++c) {
        ab += whole[n][c] * now[n][c];
        aa += whole[n][c] * whole[n][c];
        bb += now[n][c] * now[n][c];
      }
      sum += 1 - ab / std::sqrt(aa * bb);
    }
    return sum / static_cast<double>(whole.size());
  };
  for (const HeadImportance& head : found) {
    EXPECT_NEAR(head.zero.mean, turned(*without_heads(model, {head.id})), 1e-5);
    EXPECT_NEAR(head.mean.mean, turned(*without_heads(model, {head.id}, &means)), 1e-5);
    EXPECT_GT(head.zero.mean, 1e-4);
  }
  EXPECT_THROW(model::score(context, model, all), Error);
}

// What is no number ranks nothing, and is said of whom it is.
TEST(Importance, OfAModelThatOverflowsIsRefused) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  model.attention_parameters(1).out_proj_weight->value.as<float>()[0] = std::nanf("");
  Context context(1);
  std::vector<Examples> all;
  all.push_back(examples(config, "some"));
  io::expect_error(ErrorCode::value, {"head 0.0", "cannot be ranked"},
                   [&] { gradient_importance(context, model, all); });
  io::expect_error(ErrorCode::value, {"the model"}, [&] { importance(context, model, all); });
  io::expect_error(ErrorCode::value, {"the model"}, [&] { prune(context, model, all, all, {}); });
}

// Two heads that are alike write the opposite, and so much that the one without the other overflows in the norm.
TEST(Importance, OfAModelThatOverflowsWithoutAHeadIsRefused) {
  const model::Config config = small(4, 4, true);
  model::Transformer model = stirred(config);
  const auto parameters = model.attention_parameters(0);
  for (int part = 0; part < 3; ++part) {  // q, k and v of both: alike everywhere, whatever they read
    std::fill_n(parameters.in_proj_weight->value.as<float>() + part * 16 * 16, 8 * 16, 0.0f);
    std::fill_n(parameters.in_proj_bias->value.as<float>() + part * 16, 8, 1.0f);
  }
  float* out = parameters.out_proj_weight->value.as<float>();  // [16,16]
  for (int c = 0; c < 16; ++c) {
    std::fill_n(out + c * 16, 4, 1e37f);
    std::fill_n(out + c * 16 + 4, 4, -1e37f);
  }
  Tensor& logits = model.parameters().back()->value;  // small, and so are the gradients
  for (std::int64_t n = 0; n < count_of(logits.shape()); ++n) logits.as<float>()[n] *= 1e-9f;
  Context context(1);
  std::vector<Examples> all;
  all.push_back(examples(config, "some"));
  EXPECT_NO_THROW(gradient_importance(context, model, all));
  io::expect_error(ErrorCode::value, {"the model without head 0.0", "loss of sequence 0 is not finite"},
                   [&] { importance(context, model, all); });
  for (const PruneOrder order : {PruneOrder::damage, PruneOrder::random}) {
    io::expect_error(ErrorCode::value, {"the model without", "of its heads, 0."},
                     [&] { prune(context, model, all, all, {.order = order, .budget = 1}); });
  }
}

TEST(Estimate, IsStudentsInterval) {
  const Estimate found = estimate({1, 2, 3, 4, 5});
  EXPECT_NEAR(found.mean, 3, 1e-12);
  EXPECT_NEAR(found.high - found.mean, 2.776 * std::sqrt(2.5 / 5), 0.03);
  EXPECT_EQ(estimate({7}).low, 7);
  // The table of Student's t at 97.5 %.
  for (const auto& [n, t] :
       {std::pair{2, 12.706}, {3, 4.303}, {4, 3.182}, {5, 2.776}, {11, 2.228}, {31, 2.042}, {101, 1.984}}) {
    std::vector<double> values(static_cast<std::size_t>(n), 0.0);
    values[0] = 1;
    double squares = 0;
    for (const double value : values) squares += (value - 1.0 / n) * (value - 1.0 / n);
    const Estimate one = estimate(values);
    EXPECT_NEAR((one.high - one.mean) / std::sqrt(squares / (n - 1) / n), t, 0.01 * t) << n;
    EXPECT_NEAR(one.high - one.mean, one.mean - one.low, 1e-12);
  }
}

TEST(RankCorrelation, IsSpearmans) {
  EXPECT_NEAR(rank_correlation({1, 2, 3, 4}, {10, 20, 30, 40}), 1, 1e-12);
  EXPECT_NEAR(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1, 1e-12);
  EXPECT_NEAR(rank_correlation({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8, 1e-12);
  EXPECT_NEAR(rank_correlation({1, 1, 2}, {1, 1, 2}), 1, 1e-12);
  // Ties share their ranks: 0, 1.5, 1.5, 3 against 0, 1, 2, 3.
  EXPECT_NEAR(rank_correlation({1, 2, 2, 3}, {1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5), 1e-12);
  EXPECT_NEAR(rank_correlation({5, 5, 5, 1}, {1, 2, 3, 4}), -std::sqrt(0.6), 1e-12);
  EXPECT_EQ(rank_correlation({1, 1, 1}, {1, 2, 3}), 0) << "no ranks, no correlation";
  EXPECT_TRUE(std::isnan(rank_correlation({1, NAN, 2}, {1, 2, 3}))) << "and it ends";
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2, 3}, {1, 2, NAN})));
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

// Sequences of a padded batch say what they say alone.
TEST(Importance, OfAPaddedBatchIsThatOfItsSequences) {
  model::Config config = small(4, 4, true);
  config.kind = model::Kind::classifier;
  config.classes = 3;
  model::Transformer model = stirred(config);
  Context context(1);
  test::Random random("padded");
  std::vector<Examples> alone, together;
  Examples batch{Tensor::zeros({3, 12}, DType::i32), Tensor::empty({3}, DType::i32), Tensor::empty({3}, DType::i32)};
  const std::int64_t lengths[] = {12, 5, 1};
  for (std::int64_t b = 0; b < 3; ++b) {
    Examples one{Tensor::empty({1, lengths[b]}, DType::i32), Tensor::empty({1}, DType::i32), Tensor()};
    for (std::int64_t t = 0; t < lengths[b]; ++t) {
      one.tokens.as<std::int32_t>()[t] = batch.tokens.as<std::int32_t>()[b * 12 + t] =
          static_cast<std::int32_t>(random.below(config.vocabulary));
    }
    one.targets.as<std::int32_t>()[0] = batch.targets.as<std::int32_t>()[b] = static_cast<std::int32_t>(b);
    batch.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(lengths[b]);
    alone.push_back(std::move(one));
  }
  together.push_back(std::move(batch));
  const std::vector<HeadImportance> a = importance(context, model, alone), b = importance(context, model, together);
  const std::vector<Tensor> means_alone = mean_outputs(context, model, alone),
                            means_together = mean_outputs(context, model, together);
  for (std::size_t n = 0; n < a.size(); ++n) {
    EXPECT_NEAR(a[n].gradient, b[n].gradient, 1e-4) << n;
    EXPECT_NEAR(a[n].zero.mean, b[n].zero.mean, 1e-4) << n;
    EXPECT_NEAR(a[n].mean.mean, b[n].mean.mean, 1e-4) << n;
  }
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::int64_t c = 0; c < 16; ++c) {
      EXPECT_NEAR(means_alone[layer].as<float>()[c], means_together[layer].as<float>()[c], 1e-4);
    }
  }
}

// What W_O makes of the mean of a head, number by number.
TEST(Means, ShiftAsTheOutputProjectionSays) {
  const model::Config config = small(4, 4, true);
  const model::Transformer model = stirred(config);
  std::vector<Tensor> means;
  for (int layer = 0; layer < 2; ++layer) {
    means.push_back(Tensor::empty({16}, DType::f32));
    for (int n = 0; n < 16; ++n) means.back().as<float>()[n] = static_cast<float>(1 + n + 16 * layer);
  }
  const std::vector<Tensor> shifts = shifts_of(model, means, {{1, 0}, {1, 2}});
  EXPECT_FALSE(shifts[0].present());
  const float* weight = model.attention_parameters(1).out_proj_weight->value.as<float>();  // [16, 4 heads of 4]
  for (std::int64_t c = 0; c < 16; ++c) {
    double expected = 0;
    for (const std::int64_t n : {0, 1, 2, 3, 8, 9, 10, 11})
      expected += weight[c * 16 + n] * static_cast<double>(17 + n);
    EXPECT_NEAR(shifts[1].as<float>()[c], expected, 1e-3);
  }
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
    EXPECT_NEAR(estimate(turns(whole, left)).mean, step.loss, 1e-5);
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
