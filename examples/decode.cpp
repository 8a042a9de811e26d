// Token by token: a prompt goes into a cache at once, then every new token appends its key and value and attends over
// the whole cache. The cache holds f16, half the bytes; the last column compares with one full causal pass in f32.
#include <polyhead/polyhead.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr int kHeads = 8, kKvHeads = 2, kPrompt = 12, kTokens = 18, kDim = 64;

// [1,heads,tokens,dim], as the projections of a model would give them.
std::vector<float> projection(int heads, unsigned seed) {
  std::vector<float> x(static_cast<std::size_t>(heads * kTokens * kDim));
  std::minstd_rand random(seed);
  for (float& value : x) value = static_cast<float>(random() % 2001) / 1000 - 1;
  return x;
}

}  // namespace

int main() {
  const std::vector<float> q_data = projection(kHeads, 1), k_data = projection(kKvHeads, 2),
                           v_data = projection(kKvHeads, 3);
  const polyhead::ConstTensorView q(q_data.data(), {1, kHeads, kTokens, kDim});
  const polyhead::ConstTensorView k(k_data.data(), {1, kKvHeads, kTokens, kDim});
  const polyhead::ConstTensorView v(v_data.data(), {1, kKvHeads, kTokens, kDim});
  polyhead::Context context;
  const polyhead::Attention full = polyhead::attend(context, q, k, v, {.causal = true});

  polyhead::KvCache cache(context,
                          {.batch = 1, .kv_heads = kKvHeads, .capacity = kTokens, .head_dim = kDim, .value_dim = kDim},
                          polyhead::DType::f16);
  std::printf("%6s %7s %12s\n", "tokens", "cached", "difference");
  for (int begin = 0, end = kPrompt; begin < kTokens; begin = end++) {
    cache.append(context, k.slice(2, begin, end), v.slice(2, begin, end));
    const polyhead::Attention step = polyhead::attend(context, q.slice(2, begin, end), cache, {.causal = true});

    double difference = 0;
    for (int h = 0; h < kHeads; ++h) {
      const float* wanted = full.output.as<float>() + (h * kTokens + begin) * kDim;
      const float* got = step.output.as<float>() + h * (end - begin) * kDim;
      for (int i = 0; i < (end - begin) * kDim; ++i) {
        difference = std::max(difference, std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])));
      }
    }
    std::printf("%6d %7d %12.1e\n", end - begin, static_cast<int>(cache.length()), difference);
  }
}
