// Importance is what it says it is: slopes of gates, and what the loss gains without a head.
#include "heads/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "heads/pruning.h"
#include "heads/small_models.h"
#include "io/scratch.h"

namespace polyhead::heads {
namespace {

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

// In any order a head has the damage that it has in the model's order, to the last bit; those that are left out have
// none.
TEST(Importance, InAnyOrderAndUntilItIsEnough) {
  const model::Config config = small(4, 4, true);
  const model::Transformer model = stirred(config);
  Context context(2);
  std::vector<Examples> all;
  for (const char* name : {"some", "more"}) all.push_back(examples(config, name));
  const std::vector<HeadImportance> found = importance(context, model, all);
  const auto expect_same = [](const HeadImportance& one, const HeadImportance& other) {
    EXPECT_TRUE(has_damage(one)) << to_string(one.id);
    for (Estimate HeadImportance::*which : {&HeadImportance::zero, &HeadImportance::mean, &HeadImportance::logit}) {
      EXPECT_EQ((one.*which).mean, (other.*which).mean) << to_string(one.id);
      EXPECT_EQ((one.*which).high, (other.*which).high) << to_string(one.id);
    }
    EXPECT_EQ(one.accuracy_loss, other.accuracy_loss);
  };
  std::vector<HeadId> order = model::all_heads(config);
  std::reverse(order.begin(), order.end());
  const std::vector<HeadImportance> reversed = importance(context, model, all, {.order = order});
  for (std::size_t n = 0; n < found.size(); ++n) expect_same(reversed[n], found[n]);
  const std::vector<HeadImportance> three =
      importance(context, model, all, {.order = {{HeadId{1, 2}, HeadId{0, 3}, HeadId{1, 0}}}});
  for (std::size_t n = 0; n < found.size(); ++n) {
    if (n == 3 || n == 4 || n == 6)
      expect_same(three[n], found[n]);
    else
      EXPECT_FALSE(has_damage(three[n])) << n;
    EXPECT_EQ(three[n].gradient, found[n].gradient);
  }
  int asked = 0;
  const std::vector<HeadImportance> some =
      importance(context, model, all, {.order = order, .go_on = [&] { return ++asked < 2; }});
  EXPECT_EQ(asked, 2) << "it is not asked again";
  for (std::size_t n = 0; n < found.size(); ++n) {
    if (n >= 4)
      expect_same(some[n], found[n]);  // a layer goes through together
    else
      EXPECT_FALSE(has_damage(some[n])) << n;
  }
}

// The cosine distance of the embedding without a head is what is said.
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
  model::Config config = small(4, 4, true);
  config.layers[0] = {2, 2};
  const model::Transformer model = stirred(config);
  std::vector<Tensor> means;
  for (const int width : {8, 16}) {
    means.push_back(Tensor::empty({width}, DType::f32));
    for (int n = 0; n < width; ++n) means.back().as<float>()[n] = static_cast<float>(1 + n + width);
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

}  // namespace
}  // namespace polyhead::heads
