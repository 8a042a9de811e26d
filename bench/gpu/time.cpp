// How fast the GPU is at attention: TFLOP/s counted as 4 B H T S D forward (half of it if causal), 2.5 times that
// backward. It says whether a change was one for the better.
#include "gpu/time.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "polyhead/attention.h"
#include "support/random.h"

namespace polyhead::test::gpu {
namespace {

double median_seconds(Context& context, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  context.synchronise();
  std::vector<double> seconds;
  const auto begin = Clock::now();
  while (seconds.size() < 3 || (seconds.size() < 15 && Clock::now() - begin < std::chrono::milliseconds(400))) {
    const auto start = Clock::now();
    call();
    context.synchronise();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

void time_attention(Context& context) {
  std::printf("%-6s %5s %6s %7s %9s %9s  TFLOP/s\n", "type", "D", "S", "causal", "forward", "backward");
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t D : {64, 128, 256}) {
      for (const std::int64_t S : {1024, 4096, 16384}) {
        if (dtype != DType::bf16 && (S != 4096 || D != 128)) continue;
        for (const bool causal : {false, true}) {
          const std::int64_t heads = 2048 / D, batch = 16384 / S;
          Tensor host = Tensor::empty({batch, heads, S, D}, dtype);
          test::Random random(7);
          test::fill_with(host.view(), [&] { return 2 * random.uniform() - 1; });
          const Tensor q = clone(context, host), k = clone(context, host), v = clone(context, host),
                       dout = clone(context, host);
          const AttentionOptions options{.causal = causal};
          const Attention forward = attend(context, q, k, v, options, {.lse = true});
          const double flops = 4.0 * static_cast<double>(batch * heads * S * S * D) * (causal ? 0.5 : 1);
          const double there = median_seconds(context, [&] { attend(context, q, k, v, options, {.lse = true}); });
          const double back = median_seconds(context, [&] {
            attend_backward(context, q, k, v, options, {.output = dout}, {}, {forward.output, forward.lse});
          });
          std::printf("%-6s %5lld %6lld %7s %9.1f %9.1f\n", std::string(name_of(dtype)).c_str(),
                      static_cast<long long>(D), static_cast<long long>(S), causal ? "yes" : "no",
                      flops / there * 1e-12, 2.5 * flops / back * 1e-12);
          std::fflush(stdout);
        }
      }
    }
  }
}

}  // namespace polyhead::test::gpu
