#include "registers.h"

#include <stdexcept>

namespace polyhead::bench {
namespace {

constexpr int kLanes = 16, kSums = 12;  // enough sums to hide the latency of a multiply-add
using Vector [[gnu::vector_size(4 * kLanes)]] = float;

// Compiled for the widest vectors that the processor has.
#ifdef __x86_64__
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
float multiply_adds_alone(std::int64_t rounds) {
  Vector sums[kSums];
  for (int n = 0; n < kSums; ++n) sums[n] = Vector{} + static_cast<float>(n);  // different, or one would do for all
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Vector& sum : sums) sum = sum * 0.5f + 1.0f;
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}

}  // namespace

void multiply_adds(Team& team, std::int64_t count) {
  constexpr std::int64_t kRounds = 20000;  // of a piece: about 40 microseconds
  team.for_each(count / (kLanes * kSums * kRounds), 1, team.threads(), [](int) {
    return [](std::int64_t) {
      if (multiply_adds_alone(kRounds) != 2.0f * kSums) throw std::logic_error("wrong sum");
    };
  });
}

}  // namespace polyhead::bench
