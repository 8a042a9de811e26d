// What heads would write: planted ones that copy, suppress and count.
#include "heads/circuits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "heads/small_models.h"
#include "io/scratch.h"

namespace polyhead::heads {
namespace {

constexpr std::int64_t kWords = 10, kLayers = 2, kHeads = 3;

// One-hot tokens, no norm, no positions and no feed-forward; of each head's values, W_V and W_O make what is planted.
class Planted {
 public:
  Planted() : model_(config()) {
    for (autograd::Parameter* parameter : model_.parameters()) {
      std::fill_n(parameter->value.as<float>(), count_of(parameter->value.shape()), 0.0f);
    }
    for (std::int64_t v = 0; v < kWords; ++v) {
      at("tokens.weight", v, v) = 1;
      at("output.weight", v, v) = 1;
    }
  }
  // The head writes `much` of token `to` for token `from`.
  void plant(int layer, std::int64_t head, std::int64_t from, std::int64_t to, float much) {
    const std::string name = "blocks." + std::to_string(layer) + ".attention.";
    const std::int64_t inner = kHeads * kWords;
    at(name + "in_proj_weight", 2 * inner + head * kWords + from, from) = 1;
    at(name + "out_proj.weight", to, head * kWords + from) = much;
  }
  model::Transformer& model() { return model_; }

 private:
  static model::Config config() {
    model::Config made = model::make_config(model::Kind::gpt, kLayers, kWords, 1);
    made.vocabulary = kWords;
    made.context = 8;
    made.head_dim = kWords;
    for (model::LayerHeads& layer : made.layers) layer = {kHeads, kHeads, 0};
    made.norm = model::Norm::none;
    made.positions = model::Positions::none;
    made.feed_forward = model::FeedForward::none;
    made.bias = false;
    return made;
  }
  float& at(const std::string& name, std::int64_t row, std::int64_t column) {
    for (autograd::Parameter* parameter : model_.parameters()) {
      if (parameter->name == name) return parameter->value.as<float>()[row * parameter->value.shape()[1] + column];
    }
    throw std::logic_error(name);
  }

  model::Transformer model_;
};

TEST(Circuits, SayWhatEveryHeadWouldWrite) {
  Planted planted;
  for (std::int64_t v = 0; v < kWords; ++v) {
    planted.plant(1, 0, v, v, 2);                 // copies
    planted.plant(1, 1, v, v, -2);                // suppresses
    planted.plant(1, 2, v, (v + 1) % kWords, 2);  // counts
  }
  std::vector<std::int32_t> tokens(kWords);
  std::iota(tokens.begin(), tokens.end(), 0);
  Context context(1);
  std::size_t heads = 0;
  each_ov(context, planted.model(), tokens, [&](std::size_t head, const ConstTensorView& logits) {
    EXPECT_EQ(head, heads++);
    for (std::int64_t v = 0; v < kWords; ++v) {
      const float* row = logits.as<float>() + v * kWords;
      const std::int64_t top = std::max_element(row, row + kWords) - row,
                         bottom = std::min_element(row, row + kWords) - row;
      if (head == 3) {
        EXPECT_EQ(top, v);
      } else if (head == 4) {
        EXPECT_EQ(bottom, v);
      } else if (head == 5) {
        EXPECT_EQ(top, (v + 1) % kWords);
      } else {
        EXPECT_EQ(*std::max_element(row, row + kWords), 0) << "layer 0 writes nothing";
      }
    }
  });
  EXPECT_EQ(heads, 6u);
}

// Heads above the first layer read what it makes of a token: here each becomes the one two further.
TEST(Circuits, ReadWhatTheFirstLayerMakesOfATokenThatStandsAlone) {
  Planted planted;
  for (std::int64_t v = 0; v < kWords; ++v) {
    planted.plant(0, 0, v, (v + 2) % kWords, 5);
    planted.plant(1, 0, v, v, 1);
  }
  const std::vector<std::int32_t> tokens{4};
  Context context(1);
  each_ov(context, planted.model(), tokens, [&](std::size_t head, const ConstTensorView& logits) {
    if (head != 3) return;
    EXPECT_EQ(logits.as<float>()[4], 1);
    EXPECT_EQ(logits.as<float>()[6], 5);
  });
}

TEST(Circuits, RefuseModelsThatNormWhatHeadsWrite) {
  model::Config config = small(2, 2, false);
  config.sandwich = true;
  config.norm = model::Norm::rms;
  const model::Transformer model(config, 1);
  Context context(1);
  const std::vector<std::int32_t> tokens{1};
  io::expect_error(ErrorCode::value,
                   {"expected a language model whose heads add to its stream, found norms after the heads"},
                   [&] { each_ov(context, model, tokens, [](std::size_t, const ConstTensorView&) {}); });
}

}  // namespace
}  // namespace polyhead::heads
