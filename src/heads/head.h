// Heads by name, and their gates.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "model/transformer.h"

namespace polyhead::heads {

struct HeadId {
  std::size_t layer = 0;
  std::int64_t head = 0;
  friend auto operator<=>(const HeadId&, const HeadId&) = default;
};
std::string to_string(const HeadId& id);  // "1.3": layer 1, head 3, counted from 0

std::vector<HeadId> all_heads(const model::Config& config);

// A gate for every head of a model, 1 at first.
class Gates {
 public:
  explicit Gates(const model::Config& config);
  void set(const HeadId& id, float value);
  void shut(const std::vector<HeadId>& heads);
  std::vector<Tensor>* get() noexcept { return &tensors_; }  // as PassOptions takes them

 private:
  std::vector<Tensor> tensors_;  // per layer [H], absent where there are no heads
};

}  // namespace polyhead::heads
