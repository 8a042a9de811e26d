// What four heads of one layer do, reported by the engine itself without a matrix of weights: one always looks at the
// previous token, one at itself, one at all keys equally, one at random.
#include <polyhead/polyhead.h>

#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr int kHeads = 4, kTokens = 64, kDim = 64;
constexpr const char* kNames[kHeads]{"previous", "self", "uniform", "random"};

// [H,T,D]. Keys are positions, one-hot; a query asks strongly for the position it wants.
std::vector<float> queries() {
  std::vector<float> q(kHeads * kTokens * kDim);
  std::minstd_rand random(1);
  for (int i = 0; i < kTokens; ++i) {
    const auto row = [&](int head) { return q.data() + (head * kTokens + i) * kDim; };
    constexpr float strong = 80;  // after division by sqrt(D) = 8: a score of 10
    row(0)[i > 0 ? i - 1 : 0] = strong;
    row(1)[i] = strong;
    // Head 2 asks for nothing: all scores are 0.
    for (int d = 0; d < kDim; ++d) row(3)[d] = static_cast<float>(random() % 64) - 32;
  }
  return q;
}

}  // namespace

int main() {
  const std::vector<float> q = queries();
  std::vector<float> k(kTokens * kDim), v(kTokens * kDim, 1.0f);
  for (std::size_t j = 0; j < kTokens; ++j) k[j * kDim + j] = 1;

  polyhead::Context context;
  const polyhead::Attention result =
      polyhead::attend(context, polyhead::ConstTensorView(q.data(), {1, kHeads, kTokens, kDim}),
                       polyhead::ConstTensorView(k.data(), {1, 1, kTokens, kDim}),
                       polyhead::ConstTensorView(v.data(), {1, 1, kTokens, kDim}), {.causal = true},
                       {.statistics = polyhead::StatisticsSet::full});

  std::printf("%-9s %8s %11s %11s %9s %9s %9s\n", "head", "entropy", "of largest", "max weight", "on self", "previous",
              "distance");
  for (int h = 0; h < kHeads; ++h) {
    const float* of_head = result.statistics.as<float>() + h * polyhead::kFullStatistics;
    const auto mean = [&](polyhead::Statistic sum, polyhead::Statistic count) {
      return static_cast<double>(of_head[static_cast<int>(sum)]) /
             static_cast<double>(of_head[static_cast<int>(count)]);
    };
    using enum polyhead::Statistic;
    std::printf("%-9s %8.3f %10.1f%% %11.3f %9.3f %9.3f %9.3f\n", kNames[h], mean(entropy, rows),
                100 * mean(normalised_entropy, normalised_rows), mean(max_weight, rows), mean(self_weight, self_rows),
                mean(previous_weight, previous_rows), mean(distance, rows));
  }
}
