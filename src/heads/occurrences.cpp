#include "heads/occurrences.h"

#include <unordered_map>

namespace polyhead::heads {

Occurrences occurrences(std::span<const std::int32_t> tokens) {
  Occurrences found;
  std::unordered_map<std::int32_t, std::int32_t> last;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto [seen, is_new] = last.try_emplace(tokens[i], -1);
    found.duplicate.push_back(seen->second);
    found.induction.push_back(is_new ? -1 : seen->second + 1);
    seen->second = static_cast<std::int32_t>(i);
  }
  return found;
}

}  // namespace polyhead::heads
