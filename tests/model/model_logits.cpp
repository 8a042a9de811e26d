// For tests/parity: the logits of a model on one sequence. usage: model_logits MODEL OUT.npy TOKEN...
#include <cstdlib>
#include <iostream>
#include <vector>

#include "io/npy.h"
#include "polyhead/model.h"

int main(int count, char** words) try {
  if (count < 4) throw std::runtime_error("usage: model_logits MODEL OUT.npy TOKEN...");
  std::vector<std::int32_t> tokens;
  for (int n = 3; n < count; ++n) tokens.push_back(std::atoi(words[n]));
  polyhead::Context context;
  const polyhead::Model model = polyhead::Model::load(words[1]);
  const polyhead::ConstTensorView view(tokens.data(), {1, static_cast<std::int64_t>(tokens.size())});
  polyhead::io::write_npy(words[2], model.forward(context, view));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
