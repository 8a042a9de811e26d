#include "registers.h"

#include <stdexcept>
#include <thread>
#include <vector>

namespace polyhead::bench {
namespace {

constexpr int kLanes = 16, kSums = 12;  // enough sums to hide the latency of an addition
using Vector [[gnu::vector_size(4 * kLanes)]] = float;

// The best vectors that the processor has.
#ifdef __x86_64__
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
float multiply_adds_alone(std::int64_t rounds) {
  Vector sums[kSums];
  for (int n = 0; n < kSums; ++n) sums[n] = Vector{} + static_cast<float>(n);  // or one would stand for all
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Vector& sum : sums) sum = sum * 0.5f + 1.0f;
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}

}  // namespace

void multiply_adds(std::int64_t count, int threads) {
  const std::int64_t rounds = count / (kLanes * kSums * threads);
  std::vector<float> totals(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  const auto share = [&](int thread) { totals[static_cast<std::size_t>(thread)] = multiply_adds_alone(rounds); };
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(share, thread);
  share(0);
  for (std::thread& other : others) other.join();
  for (const float total : totals) {
    if (rounds > 100 && total != 2.0f * kSums) throw std::logic_error("wrong sum");
  }
}

}  // namespace polyhead::bench
