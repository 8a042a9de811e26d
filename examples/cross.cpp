// Cross-attention: three French tokens look at three English ones. The layer's parameters are set by hand so that head
// 0 compares meanings and head 1 places. The attention weights show which token found which, and the gates' gradients
// which head the result depends on.
#include <polyhead/polyhead.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int kMeaning = 4, kWidth = 2 * kMeaning;  // a token: one of four meanings, one of four places

polyhead::Tensor tokens(const std::vector<int>& meanings) {
  auto x = polyhead::Tensor::zeros({1, static_cast<std::int64_t>(meanings.size()), kWidth}, polyhead::DType::f32);
  for (std::size_t t = 0; t < meanings.size(); ++t) {
    float* token = x.as<float>() + t * kWidth;
    token[meanings[t]] = 1;
    token[kMeaning + static_cast<int>(t)] = 1;
  }
  return x;
}

// W_Q and W_K: 3 times the identity, so that equal tokens stand out; W_V and W_O: the identity.
void set_weights(polyhead::MultiHeadAttention& layer) {
  for (auto& [name, tensor] : layer.state()) {
    for (std::int64_t row = 0; row < tensor.shape(0); ++row) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        const bool sharp = name == "in_proj_weight" && row < 2 * kWidth;
        tensor.as<float>()[row * kWidth + column] = row % kWidth == column ? (sharp ? 3.0f : 1.0f) : 0.0f;
      }
    }
  }
}

}  // namespace

int main() {
  const char* french[] = {"le", "chat", "noir"};
  const char* english[] = {"the", "black", "cat"};
  const auto query = tokens({0, 2, 1}), memory = tokens({0, 1, 2});

  polyhead::Context context;
  polyhead::MultiHeadAttention layer({.width = kWidth, .heads = 2, .bias = false});
  set_weights(layer);
  auto gates = polyhead::Tensor::zeros({2}, polyhead::DType::f32);
  gates.as<float>()[0] = gates.as<float>()[1] = 1;
  const polyhead::MultiHeadInputs inputs{query, memory};
  const polyhead::MultiHeadOptions options{.attention = {.gates = gates}};
  auto wants = polyhead::MultiHeadWants::training();
  wants.attention.weights = true;
  const auto result = layer.forward(context, inputs, options, wants);

  for (int head = 0; head < 2; ++head) {
    std::printf("head %d   ", head);
    for (const char* word : english) std::printf("%7s", word);
    std::printf("\n");
    for (int t = 0; t < 3; ++t) {
      std::printf("  %-7s", french[t]);
      for (int s = 0; s < 3; ++s)
        std::printf("%7.3f", static_cast<double>(result.weights.as<float>()[(head * 3 + t) * 3 + s]));
      std::printf("\n");
    }
  }

  // How much each head adds to the meaning "cat" of the token "chat": the gradient of its gate.
  auto dout = polyhead::Tensor::zeros({1, 3, kWidth}, polyhead::DType::f32);
  dout.as<float>()[1 * kWidth + 2] = 1;
  const auto gradients = layer.backward(context, inputs, options, result, {.output = dout}, {.gates = true});
  std::printf("what \"chat\" says of cats hangs on head 0 by %.3f, on head 1 by %.3f\n",
              static_cast<double>(gradients.dgates.as<float>()[0]),
              static_cast<double>(gradients.dgates.as<float>()[1]));
}
