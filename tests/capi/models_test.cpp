// A model whose heads are known, through C: it runs, is examined and loses the heads that do nothing.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include "capi/tensors.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "polyhead/heads.h"
#include "support/induction_model.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

constexpr std::int64_t kBatch = 4, kTokens = InductionModel::kContext, kVocabulary = InductionModel::kVocabulary;

// Random halves, each repeated; the second half can be known.
Examples repeated(const char* name) {
  Examples made{Tensor::empty({kBatch, kTokens}, DType::i32), Tensor::empty({kBatch, kTokens}, DType::i32), Tensor()};
  Random random(name);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    std::int32_t* const tokens = made.tokens.as<std::int32_t>() + b * kTokens;
    std::int32_t* const targets = made.targets.as<std::int32_t>() + b * kTokens;
    std::vector<std::int32_t> order(kVocabulary);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t n = order.size(); n > 1; --n) {
      std::swap(order[n - 1], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(n)))]);
    }
    for (std::int64_t t = 0; t < kTokens; ++t) tokens[t] = order[static_cast<std::size_t>(t % kVocabulary)];
    for (std::int64_t t = 0; t < kTokens; ++t) targets[t] = t < kVocabulary ? -1 : tokens[(t + 1) % kTokens];
  }
  return made;
}

class Models : public testing::Test {
 protected:
  Models() {
    model::save(*InductionModel::make(), scratch_.folder());
    expect_ok(polyhead_model_load(context_, scratch_.folder().c_str(), &model_));
    examples_.push_back(repeated("examples"));
    batch_ = {sizeof batch_, in_c_(examples_[0].tokens), in_c_(examples_[0].targets), nullptr, nullptr, nullptr, 0};
  }
  ~Models() override { polyhead_model_free(model_); }

  io::Scratch scratch_;
  InC in_c_;
  CContext context_;
  Context in_cpp_{2};
  polyhead_model* model_ = nullptr;
  std::vector<Examples> examples_;
  polyhead_examples batch_{};
};

TEST_F(Models, RunAndSayWhatTheyAre) {
  polyhead_model_info info{};
  info.size = offsetof(polyhead_model_info, vocabulary);  // of an older program
  info.vocabulary = -1;
  expect_ok(polyhead_model_describe(model_, &info));
  EXPECT_EQ(info.vocabulary, -1);
  info.size = sizeof info;
  expect_ok(polyhead_model_describe(model_, &info));
  EXPECT_EQ(info.head_count, 4);
  EXPECT_EQ(info.vocabulary, kVocabulary);
  EXPECT_EQ(info.context_length, kTokens);
  EXPECT_EQ(info.is_encoder, 0);
  std::vector<polyhead_head> heads(4);
  expect_ok(polyhead_model_heads(model_, heads.data()));
  EXPECT_EQ(heads[3].layer, 1);
  EXPECT_EQ(heads[3].head, 1);

  const Model expected = Model::load(scratch_.folder());
  const polyhead_head induction = {1, 0};
  for (const bool knocked_out : {false, true}) {
    const Tensor logits =
        expected.forward(in_cpp_, examples_[0].tokens,
                         {.knocked_out = knocked_out ? std::vector<HeadId>{{1, 0}} : std::vector<HeadId>{}});
    polyhead_results* results = nullptr;
    expect_ok(
        polyhead_model_forward(context_, model_, batch_.tokens, nullptr, &induction, knocked_out ? 1 : 0, &results));
    polyhead_view view;
    expect_ok(polyhead_results_get(results, "logits", &view));
    EXPECT_EQ(view.tensor.rank, 3);
    EXPECT_EQ(std::memcmp(view.tensor.data, logits.view().data(),
                          static_cast<std::size_t>(logits.view().count()) * sizeof(float)),
              0);
    polyhead_results_free(results);
  }
}

TEST_F(Models, ShowWhatHeadsAttendTo) {
  polyhead_results* results = nullptr;
  expect_ok(polyhead_model_weights(context_, model_, batch_.tokens, nullptr, nullptr, 0, &results));
  const std::vector<Tensor> expected = Model::load(scratch_.folder()).weights(in_cpp_, examples_[0].tokens);
  ASSERT_EQ(expected.size(), 2u);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const Tensor& weights = expected[layer];
    EXPECT_EQ(weights.shape(), (Dims{kBatch, 2, kTokens, kTokens}));
    polyhead_view view;
    expect_ok(polyhead_results_get(results, std::to_string(layer).c_str(), &view));
    EXPECT_EQ(std::memcmp(view.tensor.data, weights.view().data(),
                          static_cast<std::size_t>(weights.view().count()) * sizeof(float)),
              0);
    const float* const last = weights.as<float>() + weights.view().count() - kTokens;
    EXPECT_NEAR(std::accumulate(last, last + kTokens, 0.0), 1, 1e-6);
  }
  polyhead_results_free(results);
}

TEST_F(Models, GoOn) {
  const std::int32_t prompts[] = {0, 1, 2, 3, 4, 1, 9, 8, 9};
  const std::int64_t lengths[] = {6, 3};
  std::vector<std::int32_t> tokens(6);
  expect_ok(polyhead_model_generate(context_, model_, prompts, lengths, 2, 3, nullptr, tokens.data()));
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{2, 3, 4, 8, 9, 8}));
  polyhead_sampling sampling{};
  sampling.size = sizeof sampling;
  sampling.temperature = -1;
  expect_refused(polyhead_model_generate(context_, model_, prompts, lengths, 2, 3, &sampling, tokens.data()),
                 POLYHEAD_VALUE, "temperature of 0 or more, found -1");
  const std::int64_t negative[] = {-1};
  expect_refused(polyhead_model_generate(context_, model_, prompts, negative, 1, 3, nullptr, tokens.data()),
                 POLYHEAD_VALUE, "prompt 0");
}

TEST_F(Models, ArePatched) {
  const std::int32_t clean[] = {2, 0, 1, 0}, corrupted[] = {2, 0, 3, 0};
  polyhead_patching patching{};
  patching.size = sizeof patching;
  std::vector<polyhead_patched_head> heads(4);
  expect_ok(
      polyhead_patch_heads(context_, model_, clean, corrupted, 4, -1, -1, &patching, heads.data(), sizeof heads[0]));
  EXPECT_EQ(patching.answer, 1);
  EXPECT_EQ(patching.instead, 3);
  EXPECT_GT(patching.clean, 0);
  EXPECT_LT(patching.corrupted, 0);
  EXPECT_EQ(heads[2].id.layer, 1);
  EXPECT_GT(heads[2].restored, 0.9);  // induction
  EXPECT_NEAR(heads[3].restored, 0, 1e-5);
  const std::vector<polyhead_patched_head> by_themselves = heads;
  expect_ok(
      polyhead_patch_heads(context_, model_, clean, corrupted, 4, 1, 3, &patching, heads.data(), sizeof heads[0]));
  EXPECT_EQ(heads[2].difference, by_themselves[2].difference);
  expect_refused(
      polyhead_patch_heads(context_, model_, clean, clean, 4, -1, -1, &patching, heads.data(), sizeof heads[0]),
      POLYHEAD_VALUE, "after both");
}

// Of two rows, the second of which is half padding.
TEST_F(Models, Embed) {
  polyhead_results* results = nullptr;
  expect_refused(polyhead_model_embed(context_, model_, batch_.tokens, nullptr, nullptr, 0, &results), POLYHEAD_VALUE,
                 "expected an encoder");
  const std::string folder = std::string(POLYHEAD_ROOT) + "/tests/fixtures/models/bert";
  polyhead_model* encoder = nullptr;
  expect_ok(polyhead_model_load(context_, folder.c_str(), &encoder));
  const std::int32_t tokens[] = {1, 2, 3, 4, 5, 6, 0, 0}, lengths[] = {4, 2};
  const ConstTensorView rows(tokens, {2, 4}), counts(lengths, {2});
  expect_ok(polyhead_model_embed(context_, encoder, in_c_(rows), in_c_(counts), nullptr, 0, &results));
  polyhead_view view;
  expect_ok(polyhead_results_get(results, "embeddings", &view));
  const Tensor whole = Model::load(folder).forward(in_cpp_, rows, {.lengths = counts});
  const std::int64_t C = whole.shape()[2];
  ASSERT_EQ(view.shape[0], 2);
  ASSERT_EQ(view.shape[1], C);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t c = 0; c < C; ++c) {
      double sum = 0;
      for (std::int64_t t = 0; t < lengths[b]; ++t) sum += whole.as<float>()[(b * 4 + t) * C + c];
      EXPECT_NEAR(static_cast<const float*>(view.tensor.data)[b * C + c], sum / lengths[b], 1e-5);
    }
  }
  polyhead_results_free(results);
  polyhead_model_free(encoder);
}

TEST_F(Models, AreExaminedAndPruned) {
  polyhead_score whole{}, without{};
  const polyhead_head induction = {1, 0};
  expect_ok(polyhead_model_score(context_, model_, &batch_, 1, nullptr, 0, &whole));
  expect_ok(polyhead_model_score(context_, model_, &batch_, 1, &induction, 1, &without));
  EXPECT_GT(whole.accuracy, 0.95);
  EXPECT_LT(without.accuracy, 0.3);

  std::vector<polyhead_surveyed_head> heads(4);
  std::vector<double> sums(4 * POLYHEAD_FULL_STATISTICS);
  expect_ok(polyhead_survey_heads(context_, model_, batch_.tokens, nullptr, nullptr, 0, 1, heads.data(),
                                  sizeof heads[0], sums.data(), POLYHEAD_FULL_STATISTICS));
  EXPECT_STREQ(heads[0].role, "previous token");
  EXPECT_STREQ(heads[2].role, "induction");
  EXPECT_EQ(heads[2].id.layer, 1);
  EXPECT_EQ(sums[0], kBatch * kTokens);

  std::vector<polyhead_head_importance> importance(4);
  expect_ok(polyhead_importance(context_, model_, &batch_, 1, importance.data(), sizeof importance[0]));
  EXPECT_GT(importance[2].zero.mean, 1);
  EXPECT_NEAR(importance[3].zero.mean, 0, 1e-6);

  std::vector<polyhead_prune_step> steps(4);
  std::size_t taken = 0, within = 0;
  expect_ok(polyhead_prune(context_, model_, &batch_, 1, &batch_, 1, 0.01, POLYHEAD_ITERATIVE, 1, &whole, steps.data(),
                           sizeof steps[0], &taken, &within));
  ASSERT_EQ(within, 2u);
  std::vector<polyhead_head> removed = {steps[0].removed, steps[1].removed};
  for (const polyhead_head& head : removed) EXPECT_EQ(head.head, 1);
  expect_refused(polyhead_prune(context_, model_, &batch_, 1, &batch_, 1, 0.01, 9, 1, &whole, steps.data(),
                                sizeof steps[0], &taken, &within),
                 POLYHEAD_VALUE, "order from 0 to 3, found 9");

  polyhead_model* smaller = nullptr;
  expect_ok(polyhead_without_heads(model_, removed.data(), removed.size(), &smaller));
  expect_ok(polyhead_model_save(smaller, scratch_.folder().c_str()));
  polyhead_model_free(smaller);
  EXPECT_EQ(Model::load(scratch_.folder()).heads(), (std::vector<HeadId>{{0, 0}, {1, 0}}));
}

// A program that knows more fields than the library finds them 0, and one that knows fewer has room for those alone.
TEST_F(Models, ArraysOfOtherVersionsAreReadAndFilled) {
  struct Newer {
    polyhead_examples known;
    const polyhead_tensor* novelty;
  };
  std::vector<Newer> batches(2, {batch_, nullptr});
  for (Newer& batch : batches) batch.known.size = sizeof batch;
  polyhead_score once{}, twice{};
  expect_ok(polyhead_model_score(context_, model_, &batch_, 1, nullptr, 0, &once));
  expect_ok(polyhead_model_score(context_, model_, &batches[0].known, 2, nullptr, 0, &twice));
  EXPECT_DOUBLE_EQ(twice.loss, once.loss);
  batches[1].known.size = sizeof batch_;
  expect_refused(polyhead_model_score(context_, model_, &batches[0].known, 2, nullptr, 0, &twice), POLYHEAD_VALUE,
                 "batches[1].size");

  struct NewerHead {
    polyhead_surveyed_head known;
    double novelty;
  };
  std::vector<NewerHead> newer(4);
  for (NewerHead& head : newer) head.novelty = 1;
  const auto survey = [&](void* heads, std::size_t size, double* sums, std::size_t count) {
    return polyhead_survey_heads(context_, model_, batch_.tokens, nullptr, nullptr, 0, 1,
                                 static_cast<polyhead_surveyed_head*>(heads), size, sums, count);
  };
  expect_ok(survey(newer.data(), sizeof newer[0], nullptr, 0));
  EXPECT_STREQ(newer[2].known.role, "induction");
  EXPECT_EQ(newer[2].novelty, 0);
  std::vector<polyhead_head> older(5, polyhead_head{-1, -1});
  std::vector<double> sums(4 * 3, -1);
  expect_ok(survey(older.data(), sizeof older[0], sums.data(), 3));
  EXPECT_EQ(older[3].layer, 1);
  EXPECT_EQ(older[4].layer, -1);
  EXPECT_EQ(sums[9], kBatch * kTokens);
  expect_refused(survey(newer.data(), 0, nullptr, 0), POLYHEAD_VALUE, "head_size");
  EXPECT_NE(polyhead_importance(context_, model_, &batch_, 1, nullptr, 0), POLYHEAD_OK);
}

TEST_F(Models, WhatCannotBeIsSaid) {
  polyhead_model* none = nullptr;
  expect_refused(polyhead_model_load(context_, "/nonexistent/model", &none), POLYHEAD_INPUT, "/nonexistent/model");
  expect_refused(polyhead_model_load(context_, nullptr, &none), POLYHEAD_VALUE, "path must not be NULL");
  EXPECT_EQ(none, nullptr);
  const polyhead_head beyond = {7, 0}, negative = {0, -1};
  expect_refused(polyhead_without_heads(model_, &beyond, 1, &none), POLYHEAD_VALUE, "7.0");
  expect_refused(polyhead_without_heads(model_, &negative, 1, &none), POLYHEAD_VALUE, "0.-1");
  polyhead_tensor no_data = *batch_.tokens;
  no_data.data = nullptr;
  polyhead_results* results = nullptr;
  expect_refused(polyhead_model_forward(context_, model_, &no_data, nullptr, nullptr, 0, &results), POLYHEAD_LAYOUT,
                 "tokens: expected data");
  batch_.targets = nullptr;
  polyhead_score score;
  expect_refused(polyhead_model_score(context_, model_, &batch_, 1, nullptr, 0, &score), POLYHEAD_VALUE, "targets");
  EXPECT_NE(polyhead_model_save(model_, "/nonexistent/folder"), POLYHEAD_OK);
}

}  // namespace
}  // namespace polyhead::test
