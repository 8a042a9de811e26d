#include "layer.h"

#include <cstdio>
#include <stdexcept>

#include "cases.h"

namespace polyhead::bench {
namespace {

struct Name {
  long width = 0, heads = 0, tokens = 0, batch = 0;
  std::string mode;
  DType dtype = DType::f32;

  explicit Name(const std::string& text) {
    char word[16] = {};
    if (std::sscanf(text.c_str(), "layer:%ld,%ld,%ld,%ld/%15s", &width, &heads, &tokens, &batch, word) != 5) {
      throw std::invalid_argument(text + ": expected layer:C,H,T,B/forward, weights or training, or +bf16");
    }
    mode = word;
    if (mode.ends_with("+bf16")) {
      dtype = DType::bf16;
      mode.resize(mode.size() - 5);
    }
    if (mode != "forward" && mode != "weights" && mode != "training") throw std::invalid_argument("no mode " + mode);
  }
};

}  // namespace

LayerCase::LayerCase(Context& context, const std::string& text)
    : layer_({.width = Name(text).width, .heads = Name(text).heads}, Name(text).dtype) {
  const Name name(text);
  std::uint64_t seed = 10;
  for (auto& [entry, tensor] : layer_.state()) {  // the same numbers as in peers.py, as large as trained ones
    fill_uniform(tensor, ++seed, 0.05f);
  }
  x_ = Tensor::empty({name.batch, name.tokens, name.width}, name.dtype);
  dy_ = Tensor::empty(x_.shape(), name.dtype);
  fill_uniform(x_, 1);
  fill_uniform(dy_, 2);
  training_ = name.mode == "training";
  if (training_) wants_ = MultiHeadWants::training();
  wants_.attention.weights = name.mode == "weights";
  if (!training_) layer_.pack(context);
}

void LayerCase::call(Context& context) {
  layer_.forward_into(context, {x_}, {}, wants_, results_);
  if (!training_) return;
  multihead_backward_into(context, layer_.shape(), layer_.parameters(), {x_}, {}, results_, {.output = dy_}, {},
                          gradients_);
}

std::vector<const Tensor*> LayerCase::results() const {
  if (!training_) return {&results_.output};
  const MultiHeadTensors& d = gradients_.dparameters;
  return {&results_.output, &gradients_.dquery, &d.in_proj_weight,
          &d.in_proj_bias,  &d.out_proj_weight, &d.out_proj_bias};
}

}  // namespace polyhead::bench
