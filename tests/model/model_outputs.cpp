// For tests/parity: what a model makes of sequences of one length. Into FOLDER go output.npy, logits [B,T,V] or what an
// encoder leaves [B,T,C], per layer weights_N.npy [B,H,T,T] and hidden_N.npy [B,T,C], which that layer reads, and of a
// language model generated.npy: the likeliest tokens after the first half of the first sequence.   usage: model_outputs
// MODEL FOLDER LENGTH TOKEN...
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <vector>

#include "io/npy.h"
#include "model/checkpoint.h"
#include "model/sample.h"

using namespace polyhead;

namespace {

constexpr int kGenerated = 8;

Tensor generated(Context& context, const model::Transformer& model, std::vector<std::int32_t> prompt) {
  Tensor tokens = Tensor::empty({kGenerated}, DType::f32);
  model::Generator generator(context, model, {std::move(prompt)}, {.temperature = 0});
  for (int n = 0; n < kGenerated; ++n) tokens.as<float>()[n] = static_cast<float>(generator.next()[0]);
  return tokens;
}

void write_outputs(const std::filesystem::path& path, const std::filesystem::path& folder,
                   const std::vector<std::int32_t>& tokens, std::int64_t length) {
  Context context;
  const std::unique_ptr<model::Transformer> model = model::load(path);
  std::vector<autograd::Variable> streams;
  model::PassOptions options{.streams = &streams};
  options.wants.attention.weights = true;
  autograd::Tape tape(context, false);
  const ConstTensorView view(tokens.data(), {std::ssize(tokens) / length, length});
  io::write_npy(folder / "output.npy", tape.value(model->forward(tape, view, options)));
  for (std::size_t layer = 0; layer < model->config().layers.size(); ++layer) {
    const std::string name = std::to_string(layer) + ".npy";
    io::write_npy(folder / ("hidden_" + name), tape.value(streams[layer]));
    if (model->config().layers[layer].heads == 0) continue;
    io::write_npy(folder / ("weights_" + name), model->attention(tape, layer).forward.weights);
  }
  if (model->config().kind != model::Kind::gpt) return;
  io::write_npy(folder / "generated.npy", generated(context, *model, {tokens.begin(), tokens.begin() + length / 2}));
}

}  // namespace

int main(int count, char** words) try {
  if (count < 5) throw std::runtime_error("usage: model_outputs MODEL FOLDER LENGTH TOKEN...");
  std::vector<std::int32_t> tokens;
  for (int n = 4; n < count; ++n) tokens.push_back(std::atoi(words[n]));
  write_outputs(words[1], words[2], tokens, std::atoi(words[3]));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
