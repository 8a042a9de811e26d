// Two heads read one sentence in parallel, like two crews: what does "it" gather in "The animal didn't cross the road
// because it was tired"? d_model = 8, two heads of 4 that share their values; then each head is knocked out in turn.
#include <polyhead/polyhead.h>

#include <array>
#include <cmath>
#include <cstdio>

namespace {

constexpr int kHeads = 2, kKeys = 5, kDim = 4;
constexpr std::array<const char*, kKeys> kTokens{"animal", "road", "because", "was", "tired"};
constexpr float kWeights[kHeads][kKeys]{{.70f, .05f, .10f, .05f, .10f}, {.20f, .05f, .05f, .15f, .55f}};
constexpr float kValues[kKeys][kDim]{
    {.8f, .1f, 0, .2f}, {.1f, .7f, .1f, 0}, {.2f, .2f, .6f, .1f}, {.1f, .1f, .2f, .8f}, {.3f, .6f, .1f, .2f}};

// Keys are one-hot and q is ln(weight), so the scores are ln(weight) and softmax gives the weights back.
polyhead::Attention crews(float gate0, float gate1) {
  float q[kHeads][kKeys], k[kKeys][kKeys] = {};
  for (int h = 0; h < kHeads; ++h)
    for (int j = 0; j < kKeys; ++j) q[h][j] = std::log(kWeights[h][j]);
  for (int j = 0; j < kKeys; ++j) k[j][j] = 1;
  const float gates[kHeads]{gate0, gate1};

  polyhead::Context context;
  return polyhead::attend(context, polyhead::ConstTensorView(&q[0][0], {1, kHeads, 1, kKeys}),
                          polyhead::ConstTensorView(&k[0][0], {1, 1, kKeys, kKeys}),       // one key/value head ...
                          polyhead::ConstTensorView(&kValues[0][0], {1, 1, kKeys, kDim}),  // ... serves both crews
                          {.scale = 1, .gates = polyhead::ConstTensorView(gates, {kHeads})}, {.weights = true});
}

void print_row(const char* name, const float* values, int count) {
  std::printf("  %-15s", name);
  for (int i = 0; i < count; ++i) std::printf(" %6.3f", static_cast<double>(values[i]));
  std::printf("\n");
}

}  // namespace

int main() {
  const polyhead::Attention both = crews(1, 1);
  const float *weights = both.weights.as<float>(), *o = both.output.as<float>();

  std::printf("1. values, shared by the heads\n");
  for (int j = 0; j < kKeys; ++j) print_row(kTokens[static_cast<std::size_t>(j)], kValues[j], kDim);

  std::printf("2. weights of animal, road, because, was, tired\n");
  print_row("head 0", weights, kKeys);
  print_row("head 1", weights + kKeys, kKeys);

  std::printf("3. each head's output: its weights times the values\n");
  print_row("o0", o, kDim);
  print_row("o1", o + kDim, kDim);

  std::printf("4. side by side, and after W_O, here the identity\n");
  print_row("it", o, kHeads * kDim);

  std::printf("5. each head knocked out in turn\n");
  print_row("without head 0", crews(0, 1).output.as<float>(), kHeads * kDim);
  print_row("without head 1", crews(1, 0).output.as<float>(), kHeads * kDim);

  std::printf("Head 0 carried the referent (animal %.2f), head 1 the attribute (tired %.2f).\n",
              static_cast<double>(weights[0]), static_cast<double>(weights[kKeys + 4]));
}
