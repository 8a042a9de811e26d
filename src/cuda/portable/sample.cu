// Draws of tokens, a block per row of logits. Weights are whole numbers, so their sums are the same in any order, and
// the limits of top_k and top_p are found digit by digit, as a radix sort would, without sorting.
#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"
#include "kernels/sample.h"

namespace polyhead::cuda {
namespace {

using namespace portable;
using Weight = unsigned long long;

constexpr int kThreads = 1024, kWarps = kThreads / 32, kDigits = 256;

struct SampleArguments {
  const float* logits;
  std::int64_t stride;
  int count;
  double temperature;
  int top_k;  // `count` for all
  double top_p;
  const double* draws;
  std::int32_t* tokens;
  Violations violations;
};

// Combines one number of every thread; `all` [kWarps] is shared memory. Everybody gets the result.
template <class T, class Join>
__device__ T of_block(T x, T* all, const Join& join) {
  for (int step = 16; step > 0; step /= 2) x = join(x, __shfl_xor_sync(~0u, x, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = x;
  __syncthreads();
  x = all[0];
  for (int warp = 1; warp < kWarps; ++warp) x = join(x, all[warp]);
  return x;
}

// The sum over the threads before this one; `all` [kThreads] is shared memory.
__device__ inline Weight before_me(Weight x, Weight* all) {
  __syncthreads();
  all[threadIdx.x] = x;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  Weight sum = 0;
  for (int other = lane; other < 32 * warp; other += 32) sum += all[other];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  for (int other = 32 * warp; other < static_cast<int>(threadIdx.x); ++other) sum += all[other];
  return sum;
}

// The tokens to draw from: those of a rank above `rank`, and the first `equals` of that rank.
struct Limit {
  std::uint32_t rank = 0;
  Weight equals = ~Weight{0};
};

class Row {
 public:
  __device__ Row(const SampleArguments& a, Weight* shared)
      : a_(a), logits_(a.logits + static_cast<std::int64_t>(blockIdx.x) * a.stride), shared_(shared) {}

  // The largest logit. Complains of those that are not finite.
  __device__ void find_largest() {
    float most = -INFINITY;
    bool finite = true;
    for (int v = static_cast<int>(threadIdx.x); v < a_.count; v += kThreads) {
      finite = finite && isfinite(logits_[v]);
      most = fmaxf(most, logits_[v]);
    }
    if (!finite) a_.violations.add({.kind = kernels::BadValue::Kind::logits});
    largest_ = of_block(most, reinterpret_cast<float*>(shared_), [](float x, float y) { return fmaxf(x, y); });
  }
  __device__ int likeliest() {
    int first = a_.count;
    for (int v = static_cast<int>(threadIdx.x); v < a_.count; v += kThreads) {
      if (logits_[v] == largest_) first = min(first, v);
    }
    return of_block(first, reinterpret_cast<int*>(shared_), [](int x, int y) { return min(x, y); });
  }
  __device__ Limit limit() {
    Limit found;
    if (a_.top_k < a_.count) found = first_with(static_cast<Weight>(a_.top_k), found, false);
    if (a_.top_p < 1) found = first_with(kernels::share_of(total(found), a_.top_p), found, true);
    return found;
  }
  // The token at which the weights of those within the limit, added by number, exceed `draw` of their sum.
  __device__ int draw(const Limit& limit, double draw) {
    const int each = (a_.count + kThreads - 1) / kThreads, begin = min(static_cast<int>(threadIdx.x) * each, a_.count),
              end = min(begin + each, a_.count);
    Weight ties = 0;
    for (int v = begin; v < end; ++v) ties += rank(v) == limit.rank;
    const Weight ties_before = before_me(ties, shared_);
    const auto walk = [&](const auto& visit) {
      Weight seen = ties_before;
      for (int v = begin; v < end; ++v) {
        const std::uint32_t its = rank(v);
        if (its > limit.rank || (its == limit.rank && seen++ < limit.equals)) visit(v, weight(v));
      }
    };
    Weight own = 0;
    int last = -1;  // of this thread's
    walk([&](int v, Weight w) {
      own += w;
      if (w > 0) last = v;
    });
    Weight sum = before_me(own, shared_);
    const Weight all = of_block(own, shared_, [](Weight x, Weight y) { return x + y; });
    const auto at = static_cast<Weight>(draw * static_cast<double>(all));
    int found = a_.count;
    walk([&](int v, Weight w) {
      sum += w;
      if (sum > at) found = min(found, v);
    });
    found = of_block(found, reinterpret_cast<int*>(shared_), [](int x, int y) { return min(x, y); });
    last = of_block(last, reinterpret_cast<int*>(shared_), [](int x, int y) { return max(x, y); });
    return min(found, last);
  }

 private:
  __device__ std::uint32_t rank(int v) const { return kernels::rank_of(logits_[v]); }
  __device__ Weight weight(int v) const {
    const double e = exp((static_cast<double>(logits_[v]) - static_cast<double>(largest_)) / a_.temperature);
    return static_cast<Weight>(llrint(e * kernels::kWholeWeight));
  }

  // The weight of all within a limit; those of its rank weigh the same.
  __device__ Weight total(const Limit& limit) {
    Weight sum = 0, ties = 0, one = 0;
    for (int v = static_cast<int>(threadIdx.x); v < a_.count; v += kThreads) {
      const std::uint32_t its = rank(v);
      if (its < limit.rank) continue;
      const Weight w = weight(v);
      if (its > limit.rank) {
        sum += w;
      } else {
        ++ties;
        one = w;
      }
    }
    const auto add = [](Weight x, Weight y) { return x + y; };
    const auto most = [](Weight x, Weight y) { return x > y ? x : y; };
    sum = of_block(sum, shared_, add);
    ties = of_block(ties, shared_, add);
    one = of_block(one, shared_, most);
    return sum + one * (ties < limit.equals ? ties : limit.equals);
  }

  // The fewest tokens within `outer`, the likeliest first, that reach `target`: by number, or by weight.
  __device__ Limit first_with(Weight target, const Limit& outer, bool weighs) {
    std::uint32_t prefix = 0;
    Weight left = target, one = 1;
    for (int shift = 24; shift >= 0; shift -= 8) {
      __syncthreads();
      if (threadIdx.x < kDigits) shared_[threadIdx.x] = 0;
      __syncthreads();
      for (int v = static_cast<int>(threadIdx.x); v < a_.count; v += kThreads) {
        const std::uint32_t its = rank(v);
        if (its < outer.rank || (shift < 24 && its >> (shift + 8) != prefix)) continue;
        atomicAdd(&shared_[its >> shift & 255u], weighs ? weight(v) : Weight{1});
      }
      __syncthreads();
      // Every thread looks for the digit at which the sum from above reaches what is left.
      int digit = kDigits - 1;
      while (digit > 0 && shared_[digit] < left) left -= shared_[digit--];
      prefix = prefix << 8 | static_cast<std::uint32_t>(digit);
    }
    if (weighs) {
      Weight mine = 0;
      for (int v = static_cast<int>(threadIdx.x); v < a_.count; v += kThreads) {
        if (rank(v) == prefix) mine = weight(v);
      }
      one = of_block(mine, shared_, [](Weight x, Weight y) { return x > y ? x : y; });
    }
    Limit found{prefix, one == 0 ? 1 : (left + one - 1) / one};
    if (prefix == outer.rank && outer.equals < found.equals) found.equals = outer.equals;
    return found;
  }

  const SampleArguments& a_;
  const float* const logits_;
  Weight* const shared_;  // [kThreads]
  float largest_ = 0;
};

__global__ void __launch_bounds__(kThreads) sample_kernel(SampleArguments a) {
  begin_in_stream_order();
  __shared__ Weight shared[kThreads];
  Row row(a, shared);
  row.find_largest();
  const int token = a.temperature > 0 ? row.draw(row.limit(), a.draws[blockIdx.x]) : row.likeliest();
  if (threadIdx.x == 0) a.tokens[blockIdx.x] = max(0, min(token, a.count - 1));  // NaN may have left none
}

}  // namespace

void sample(CudaExecutor& executor, std::string_view op, const kernels::SampleProblem& p) {
  const auto V = static_cast<int>(p.logits.shape(1));
  executor.launch_early(sample_kernel, p.logits.shape(0), kThreads, 0,
                        SampleArguments{floats(p.logits), p.logits.stride(0), V, p.temperature,
                                        p.top_k > 0 && p.top_k < V ? static_cast<int>(p.top_k) : V, p.top_p,
                                        p.draws.present() ? static_cast<const double*>(p.draws.data()) : nullptr,
                                        static_cast<std::int32_t*>(p.tokens.data()), executor.queue().violations(op)});
}

}  // namespace polyhead::cuda
