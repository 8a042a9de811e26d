// The layer, timed: "layer:C,H,T,B/MODE", self-attention of width C with H heads. MODE forward: only the output;
// weights: with the weights of every head; training: forward and backward, all gradients; +bf16: all stored in bf16.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "polyhead/layer.h"

namespace polyhead::bench {

class LayerCase {
 public:
  // Throws std::invalid_argument for a name that it does not know.
  LayerCase(Context& context, const std::string& name);

  void call(Context& context);
  std::vector<const Tensor*> results() const;

 private:
  MultiHeadAttention layer_;
  Tensor x_, dy_;
  bool training_ = false;
  MultiHeadWants wants_;
  MultiHeadResults results_;
  MultiHeadGradients gradients_;
};

}  // namespace polyhead::bench
