// Causal attention over one sequence, timed: around a ring if mpirun starts it, in one process otherwise.
// bench/ranks.py runs it both ways.
//
//   polyhead_ranks_bench THREADS H,T,D forward|backward CALLS     prints the seconds of every call
#include "core/ranks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ops/ring.h"
#include "support/random.h"

namespace polyhead::bench {
namespace {

struct Sizes {
  long heads = 0, tokens = 0, width = 0;
};

// One call; what it computed is let go.
void call(Context& context, Ranks& ranks, const Tensor& q, const Tensor& k, const Tensor& v, bool backward) {
  const AttentionOptions options{.causal = true};
  if (ranks.size() == 1) {
    const Attention forward = attend(context, q, k, v, options, {.lse = backward});
    if (backward) attend_backward(context, q, k, v, options, {.output = q}, {}, {forward.output, forward.lse});
    return;
  }
  const ops::Ring ring{ranks, ops::RingOrder::halves};
  const ops::RingAttention forward = ops::ring_attend(context, ring, q, k, v, options);
  if (backward) ops::ring_attend_backward(context, ring, q, k, v, options, {.output = q}, {}, forward);
}

int run(int threads, const Sizes& sizes, bool backward, int calls) {
  const std::optional<Launch> started = launch();
  const std::unique_ptr<Ranks> joined = started && started->size > 1 ? ranks::join() : nullptr;
  Ranks& all = joined ? *joined : alone();
  const auto rows = ops::evenly(sizes.tokens, all.size())[static_cast<std::size_t>(all.rank())];
  const auto made = [&](const char* name) {
    return test::normal({1, sizes.heads, rows, sizes.width}, name, DType::f32);
  };
  const Tensor q = made("q"), k = made("k"), v = made("v");
  Context context(threads);
  for (int n = 0; n <= calls; ++n) {  // the first is not timed
    all.gather("");
    const auto begin = std::chrono::steady_clock::now();
    call(context, all, q, k, v, backward);
    all.gather("");  // until the last one is done
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (all.rank() == 0 && n > 0) std::printf("%.6f\n", took.count());
  }
  return 0;
}

}  // namespace
}  // namespace polyhead::bench

int main(int argc, char** argv) {
  polyhead::bench::Sizes sizes;
  if (argc != 5 || std::sscanf(argv[2], "%ld,%ld,%ld", &sizes.heads, &sizes.tokens, &sizes.width) != 3) {
    std::fprintf(stderr, "usage: polyhead_ranks_bench THREADS H,T,D forward|backward CALLS\n");
    return 2;
  }
  return polyhead::bench::run(std::atoi(argv[1]), sizes, std::strcmp(argv[3], "backward") == 0, std::atoi(argv[4]));
}
