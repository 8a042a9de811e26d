// A model whose weights are written by hand: two layers of two heads that repeat what they have read, as the book has
// it. Head 0.0 writes the token before into the stream, 1.0 looks for where that is the present token and says what
// stands there; 0.1 and 1.1 do nothing.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "model/transformer.h"

namespace polyhead {

class InductionModel {
 public:
  static constexpr std::int64_t kVocabulary = 16, kContext = 32;

  static std::unique_ptr<model::Transformer> make() { return std::move(InductionModel().model_); }

  // A tokenizer.json for it: token 0 is the word a, 1 is b ...
  static std::string tokenizer_json() {
    std::string words;
    for (std::int64_t n = 0; n < kVocabulary; ++n) {
      words += (n == 0 ? "\"" : ",\"") + std::string(1, static_cast<char>('a' + n)) + "\":" + std::to_string(n);
    }
    return R"({"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel","vocab":{)" + words + "}}}";
  }

 private:
  // The stream: [token | position | token before | answer], one-hot.
  static constexpr std::int64_t kPosition = kVocabulary, kBefore = kPosition + kContext,
                                kAnswer = kBefore + kVocabulary, kWidth = kAnswer + kVocabulary, kHeadDim = kContext;

  InductionModel() : model_(std::make_unique<model::Transformer>(config())) {
    for (autograd::Parameter* parameter : model_->parameters()) {
      std::fill_n(parameter->value.as<float>(), count_of(parameter->value.shape()), 0.0f);
    }
    diagonal("tokens.weight", 0, 0, kVocabulary);
    diagonal("positions.weight", 0, kPosition, kContext);
    head_0("blocks.0.attention.", kPosition + 1, kPosition, kContext - 1, kBefore);
    head_0("blocks.1.attention.", 0, kBefore, kVocabulary, kAnswer);
    diagonal("output.weight", 0, kAnswer, kVocabulary, 10);
  }

  // Head 0 of a layer: asks for stream[asks + n], is found by stream[offers + n], and copies tokens to stream[to].
  void head_0(const std::string& layer, std::int64_t asks, std::int64_t offers, std::int64_t count, std::int64_t to) {
    constexpr float kSharp = 200;
    diagonal(layer + "in_proj_weight", 0, asks, count, kSharp);
    diagonal(layer + "in_proj_weight", 2 * kHeadDim, offers, count);
    diagonal(layer + "in_proj_weight", 4 * kHeadDim, 0, kVocabulary);
    diagonal(layer + "out_proj.weight", to, 0, kVocabulary);
  }

  void diagonal(const std::string& name, std::int64_t row, std::int64_t column, std::int64_t count, float value = 1) {
    for (autograd::Parameter* parameter : model_->parameters()) {
      if (parameter->name != name) continue;
      const std::int64_t columns = parameter->value.shape()[1];
      for (std::int64_t n = 0; n < count; ++n) parameter->value.as<float>()[(row + n) * columns + column + n] = value;
      return;
    }
    throw std::logic_error("no parameter " + name);
  }

  static model::Config config() {
    model::Config made = model::make_config(model::Kind::gpt, 2, kWidth, 2);
    made.head_dim = kHeadDim;
    made.vocabulary = kVocabulary;
    made.context = kContext;
    made.norm = model::Norm::none;
    made.feed_forward = model::FeedForward::none;
    made.bias = false;
    return made;
  }

  std::unique_ptr<model::Transformer> model_;
};

}  // namespace polyhead
