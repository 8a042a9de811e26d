#include "io/loaded_tensors.h"

#include <algorithm>

#include "core/suggest.h"
#include "io/json.h"

namespace polyhead::io {

bool LoadedTensors::has(std::string_view name) const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& each) { return each.first == name && each.second.present(); });
}

Tensor LoadedTensors::take(std::string_view name) {
  std::vector<std::string> names;
  for (auto& [own, tensor] : tensors) {
    if (!tensor.present()) continue;
    if (own == name) return std::move(tensor);
    names.push_back(own);
  }
  throw Error(ErrorCode::input, "take", where + ": no tensor " + in_quotes(name) + did_you_mean(name, names));
}

}  // namespace polyhead::io
