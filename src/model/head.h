// The heads of a model, and their gates.
#pragma once

#include <string_view>
#include <vector>

#include "model/config.h"
#include "polyhead/model.h"

namespace polyhead::model {

std::vector<HeadId> all_heads(const Config& config);

// A gate for every head of a model, 1 at first.
class Gates {
 public:
  explicit Gates(const Config& config);
  // Both throw Error (value) if the model has no such head; `name` is what messages call the argument.
  void set(const HeadId& id, float value, std::string_view name = "heads");
  void shut(const std::vector<HeadId>& heads, std::string_view name = "knocked_out");
  std::vector<Tensor>* get() noexcept { return &tensors_; }  // as PassOptions takes them

 private:
  std::vector<Tensor> tensors_;  // per layer [H], absent where there are no heads
};

}  // namespace polyhead::model
