// What a pass is said to take, beside what it takes.
#include "model/memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <array>

#include "autograd/functions.h"
#include "model/peak.h"
#include "model/transformer.h"

namespace polyhead::model {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// As trained by the study, and as others make them: gated, normed twice, with few key/value heads.
std::array<Config, 2> configs() {
  Config plain = make_config(Kind::gpt, 4, 256, 4), gated = make_config(Kind::gpt, 6, 192, 6);
  gated.feed_forward = FeedForward::swiglu;
  gated.norm = Norm::rms;
  gated.sandwich = gated.qk_norm = true;
  gated.bias = false;
  gated.positions = Positions::rotary;
  for (LayerHeads& heads : gated.layers) heads.kv_heads = 2;
  for (Config* config : {&plain, &gated}) {
    config->vocabulary = 300;
    config->context = 512;
  }
  return {plain, gated};
}

TEST(PassBytes, AreWhatAPassTakes) {
  for (const Config& config : configs()) {
    const Transformer model(config, 1);
    for (const bool backward : {false, true}) {
      const Pass pass{.batch = 4, .tokens = 512, .backward = backward};
      const Tensor tokens = Tensor::zeros({pass.batch, pass.tokens}, DType::i32);
      malloc_trim(0);
      const auto peak = test::peak_of([&] {
        Context context(1);
        autograd::Tape tape(context, backward);
        const autograd::Variable logits = model.forward(tape, tokens);
        if (!backward) return;
        autograd::cross_entropy(tape, logits, tokens);
        tape.backward();
      });
      if (!peak) GTEST_SKIP() << "the peak cannot be reset";
      const double said = pass_bytes(config, pass) + (backward ? 4 * parameter_count(config) : 0);
      EXPECT_NEAR(said / *peak, 1, 0.1) << (backward ? "with" : "without") << " a backward pass";
    }
  }
}

// Of many heads, the statistics of every row are nearly half of it.
TEST(PassBytes, CountTheStatisticsOfRows) {
  Config config = make_config(Kind::gpt, 4, 128, 32);
  config.vocabulary = 300;
  config.context = 512;
  const Transformer model(config, 1);
  const Pass pass{.batch = 4, .tokens = 512, .row_statistics = true};
  const Tensor tokens = Tensor::zeros({pass.batch, pass.tokens}, DType::i32);
  malloc_trim(0);
  const auto peak = test::peak_of([&] {
    Context context(1);
    autograd::Tape tape(context, false);
    PassOptions options;
    options.wants.attention.statistics = StatisticsSet::full;
    options.wants.attention.row_statistics = true;
    model.forward(tape, tokens, options);
  });
  if (!peak) GTEST_SKIP() << "the peak cannot be reset";
  EXPECT_NEAR(pass_bytes(config, pass) / *peak, 1, 0.1);
}
#endif

}  // namespace
}  // namespace polyhead::model
