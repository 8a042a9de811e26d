#include "training.h"

#include <cstdio>
#include <stdexcept>

namespace polyhead::bench {

bool is_rounded(const std::string& name) { return name.ends_with("+bf16"); }

test::TrainingSizes training_sizes(const std::string& given) {
  const std::string name = given.substr(0, given.size() - (is_rounded(given) ? 5 : 0));
  long layers = 0, width = 0, heads = 0, tokens = 0, batch = 0;
  int end = 0;
  if (std::sscanf(name.c_str(), "train:%ld,%ld,%ld,%ld,%ld/step%n", &layers, &width, &heads, &tokens, &batch, &end) !=
          5 ||
      static_cast<std::size_t>(end) != name.size()) {
    throw std::invalid_argument(name + ": expected train:L,C,H,T,B/step");
  }
  return {layers, width, heads, tokens, batch};
}

}  // namespace polyhead::bench
