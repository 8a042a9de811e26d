// What the opaque handles of C hold.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "capi/guard.h"
#include "polyhead/polyhead.h"

struct polyhead_context {
  polyhead::Context context;
};

struct polyhead_layer {
  polyhead::MultiHeadAttention layer;
};

struct polyhead_model {
  polyhead::Model model;
};

struct polyhead_results {
  std::variant<polyhead::Tensor, std::vector<polyhead::Tensor>, polyhead::MultiHeadResults,
               polyhead::MultiHeadGradients>
      kept;
  std::vector<std::pair<std::string, polyhead::ConstTensorView>> tensors;  // views of `kept`, by name

  void name(std::string name, const polyhead::ConstTensorView& tensor) {
    if (tensor.present()) tensors.emplace_back(std::move(name), tensor);
  }
};
