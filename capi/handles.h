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

struct polyhead_tokenizer {
  polyhead::Tokenizer tokenizer;
};

struct polyhead_generation {
  polyhead::Generation generation;
  std::vector<polyhead::Addition> last;  // which the caller may still read
};

struct polyhead_results {
  std::variant<polyhead::Tensor, polyhead::Examples, std::vector<polyhead::Tensor>, polyhead::MultiHeadResults,
               polyhead::MultiHeadGradients>
      kept;
  std::vector<std::pair<std::string, polyhead::ConstTensorView>> tensors;  // views of `kept`, by name

  void name(std::string name, const polyhead::ConstTensorView& tensor) {
    if (tensor.present()) tensors.emplace_back(std::move(name), tensor);
  }
};
