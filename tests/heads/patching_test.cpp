// What comes back when a head gives what it gave in another run.
#include "heads/patching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "io/scratch.h"
#include "support/random.h"

namespace polyhead::heads {
namespace {

using Tokens = std::vector<std::int32_t>;

// Nothing but attention: logits are sums over heads.
model::Config attention_only(std::int64_t layers) {
  model::Config config = model::make_config(model::Kind::gpt, layers, 16, 4);
  config.vocabulary = 9;
  config.context = 8;
  config.norm = model::Norm::none;
  config.feed_forward = model::FeedForward::none;
  config.layers[0].kv_heads = 2;
  return config;
}

model::Transformer stirred(const model::Config& config) {
  model::Transformer model(config, 3);
  test::Random random("stirred");
  for (autograd::Parameter* parameter : model.parameters()) test::fill_normal(parameter->value, random, 0.3);
  return model;
}

const Tokens kClean{1, 2, 3, 4, 5}, kCorrupted{1, 7, 3, 8, 5};

std::vector<float> last_logits(Context& context, const model::Transformer& model, const Tokens& tokens) {
  autograd::Tape tape(context, false);
  const auto T = std::ssize(tokens);
  const ConstTensorView logits = tape.value(model.forward(tape, ConstTensorView(tokens.data(), {1, T})));
  const float* last = logits.as<float>() + (T - 1) * 9;
  return {last, last + 9};
}

// By how much the answer is ahead of what would be said instead, in both runs.
TEST(Patch, TellsTheLogitsOfBothRunsApart) {
  Context context(1);
  const model::Transformer model = stirred(attention_only(2));
  const std::vector<float> clean = last_logits(context, model, kClean),
                           corrupted = last_logits(context, model, kCorrupted);
  const Patching found = patch(context, model, kClean, kCorrupted, {2, 6});
  EXPECT_NEAR(found.clean, clean[2] - clean[6], 1e-5);
  EXPECT_NEAR(found.corrupted, corrupted[2] - corrupted[6], 1e-5);
  EXPECT_GT(std::abs(found.clean - found.corrupted), 1e-2);
}

// With one layer and the same last token, the heads together make all of the difference, each its own part.
TEST(Patch, OfOneLayerTheHeadsMakeUpTheWhole) {
  Context context(1);
  model::Transformer model = stirred(attention_only(1));
  float* out = model.attention_parameters(0).out_proj_weight->value.as<float>();
  for (int c = 0; c < 16; ++c) std::fill_n(out + c * 16 + 4, 4, 0.0f);  // head 1 writes nothing
  std::int64_t told = 0;
  const Patching found =
      patch(context, model, kClean, kCorrupted, {2, 6}, [&](std::int64_t n) { EXPECT_EQ(n, ++told); });
  ASSERT_EQ(found.heads.size(), 4u);
  EXPECT_EQ(told, 4);
  double sum = 0;
  for (const PatchedHead& head : found.heads) {
    sum += head.restored;
    EXPECT_NEAR(head.difference, found.corrupted + head.restored * (found.clean - found.corrupted), 1e-5);
  }
  EXPECT_NEAR(sum, 1, 1e-4);
  EXPECT_NEAR(found.heads[1].restored, 0, 1e-5);
  EXPECT_GT(std::abs(found.heads[0].restored), 1e-3);
}

TEST(Patch, AsksForMemoryBeforeItTakesIt) {
  Context context(1);
  model::Config config = model::make_config(model::Kind::gpt, 1, 2, 1);
  config.vocabulary = config.context = 1'000'000;
  const model::Transformer model(config, 1);
  const Tokens clean(1'000'000, 1), corrupted(1'000'000, 2);
  const auto says = [](const std::function<void()>& call) {
    io::expect_error(ErrorCode::value, {"[patch]", "on 1 x 1000000 tokens takes about ", " TB of memory"}, call);
  };
  says([&] { patch(context, model, clean, corrupted, {2, 6}); });
  says([&] { likeliest_after(context, model, clean, corrupted); });
}

// What a head of the first layer gives is read by the second: a model whose second layer is cut off is another one.
TEST(Patch, GoesThroughTheLayersAbove) {
  Context context(1);
  model::Transformer model = stirred(attention_only(2));
  const Patching whole = patch(context, model, kClean, kCorrupted, {2, 6});
  ASSERT_EQ(whole.heads.size(), 8u);
  model.attention_parameters(1).out_proj_weight->value = Tensor::zeros({16, 16}, DType::f32);
  const Patching cut = patch(context, model, kClean, kCorrupted, {2, 6});
  EXPECT_GT(std::abs(whole.heads[0].difference - whole.corrupted - (cut.heads[0].difference - cut.corrupted)), 1e-4);
  for (std::size_t n = 4; n < 8; ++n) EXPECT_NEAR(cut.heads[n].restored, 0, 1e-5);
}

TEST(Patch, TheLikeliestTokensAreThoseOfTheRuns) {
  Context context(1);
  model::Transformer model = stirred(attention_only(1));
  float* output = model.parameters().back()->value.as<float>();  // [9,16]
  std::transform(output, output + 16, output,
                 [](float weight) { return 4 * weight; });  // token 0 is likeliest now and then
  const auto likeliest = [&](const Tokens& tokens) {
    const std::vector<float> last = last_logits(context, model, tokens);
    return static_cast<std::int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
  };
  std::set<std::int32_t> seen;
  for (std::int32_t first = 0; first < 9; ++first) {
    for (std::int32_t second = 0; second < 9; ++second) {
      const Tokens clean{first, second}, corrupted{second, first};
      const Likeliest found = likeliest_after(context, model, clean, corrupted);
      EXPECT_EQ(found.clean, likeliest(clean));
      EXPECT_EQ(found.corrupted, likeliest(corrupted));
      seen.insert(found.clean);
    }
  }
  EXPECT_TRUE(seen.contains(0) && seen.size() > 3) << "or the first of them is not tested";
}

TEST(Patch, RefusesWhatDoesNotFit) {
  Context context(1);
  const model::Transformer model = stirred(attention_only(1));
  EXPECT_THROW(patch(context, model, kClean, Tokens{1, 2}, {2, 6}), Error);
  EXPECT_THROW(patch(context, model, Tokens{}, Tokens{}, {2, 6}), Error);
  EXPECT_THROW(patch(context, model, kClean, kCorrupted, {2, 9}), Error);
  EXPECT_THROW(patch(context, model, kClean, kClean, {2, 6}), Error);
  model::Config config = attention_only(1);
  config.kind = model::Kind::encoder;
  EXPECT_THROW(patch(context, model::Transformer(config), kClean, kCorrupted, {2, 6}), Error);
}

}  // namespace
}  // namespace polyhead::heads
