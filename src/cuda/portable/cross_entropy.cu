// Cross-entropy, f32: a block per row of logits.
#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

constexpr int kRowThreads = 256, kShortRowThreads = 64;

// join of the x of all threads, in all of them.
template <int kThreads, class T, class Join>
__device__ T block_join(T x, const Join& join) {
  __shared__ T parts[kThreads / 32];
  __syncthreads();
  for (int offset = 16; offset > 0; offset /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, offset));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) x = join(x, parts[warp]);
  return x;
}

// A block per group of rows: shares [rows] = 1 / the number of rows in the group that count.
__global__ void __launch_bounds__(kRowThreads)
    share_kernel(const std::int32_t* targets, std::int64_t together, float* shares) {
  const std::int64_t begin = blockIdx.x * together;
  int count = 0;
  for (std::int64_t n = threadIdx.x; n < together; n += kRowThreads) count += targets[begin + n] >= 0 ? 1 : 0;
  count = block_join<kRowThreads>(count, [](int a, int b) { return a + b; });
  const float share = count == 0 ? 0.0f : 1.0f / static_cast<float>(count);
  for (std::int64_t n = threadIdx.x; n < together; n += kRowThreads) shares[begin + n] = share;
}

// scores [2] = the target's logit minus the mean of x [V], and 1 if it is the first of the largest, else 0.
template <int kThreads>
__device__ void score_target(const float* x, std::int64_t V, std::int64_t target, float* scores) {
  const float at_target = x[target];
  float sum = 0, above = 0;
  for (std::int64_t c = threadIdx.x; c < V; c += kThreads) {
    sum += x[c];
    above = x[c] > at_target || (x[c] == at_target && c < target) ? 1.0f : above;
  }
  sum = block_join<kThreads>(sum, [](float a, float b) { return a + b; });
  above = block_join<kThreads>(above, [](float a, float b) { return fmaxf(a, b); });
  if (threadIdx.x != 0) return;
  scores[0] = at_target - sum / static_cast<float>(V);
  scores[1] = 1 - above;
}

// dlogits = (softmax - 1 at the target) * share.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const float* logits, const std::int32_t* targets, const float* shares, std::int64_t V, float* losses,
                float* dlogits, float* target_scores, const Violations violations) {
  const std::int64_t row = blockIdx.x;
  const float* x = logits + row * V;
  float* d = dlogits != nullptr ? dlogits + row * V : nullptr;
  const std::int32_t target = targets[row];
  if (target >= V && threadIdx.x == 0) {
    violations.add({.kind = kernels::BadValue::Kind::classes, .place = {row}, .found = target, .high = V});
  }
  if (target < 0 || target >= V) {
    if (threadIdx.x == 0) losses[row] = 0;
    if (threadIdx.x < 2 && target_scores != nullptr) target_scores[2 * row + threadIdx.x] = 0;
    for (std::int64_t c = threadIdx.x; d != nullptr && c < V; c += kThreads) d[c] = 0;
    return;
  }
  const float at_target = x[target], share = shares[row];
  float top = -INFINITY, sum = 0;
  for (std::int64_t c = threadIdx.x; c < V; c += kThreads) top = fmaxf(top, x[c]);
  top = block_join<kThreads>(top, [](float a, float b) { return fmaxf(a, b); });
  for (std::int64_t c = threadIdx.x; c < V; c += kThreads) sum += expf(x[c] - top);
  sum = block_join<kThreads>(sum, [](float a, float b) { return a + b; });  // by now all threads have read x[target]
  if (threadIdx.x == 0) losses[row] = top + logf(sum) - at_target;
  if (target_scores != nullptr) score_target<kThreads>(x, V, target, target_scores + 2 * row);
  for (std::int64_t c = threadIdx.x; d != nullptr && c < V; c += kThreads) {
    d[c] = expf(x[c] - top) * (share / sum) - (c == target ? share : 0.0f);
  }
}

// totals [2] = the sum of shares * losses, and how many rows count: one block, in a fixed order.
__global__ void __launch_bounds__(kRowThreads)
    totals_kernel(const float* losses, const float* shares, const std::int32_t* targets, std::int64_t rows,
                  double* totals) {
  __shared__ double parts[kRowThreads][2];
  double sum = 0, count = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kRowThreads) {
    sum += static_cast<double>(losses[row]) * static_cast<double>(shares[row]);
    count += targets[row] >= 0 ? 1 : 0;
  }
  parts[threadIdx.x][0] = sum;
  parts[threadIdx.x][1] = count;
  for (int half = kRowThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= half) continue;
    parts[threadIdx.x][0] += parts[threadIdx.x + half][0];
    parts[threadIdx.x][1] += parts[threadIdx.x + half][1];
  }
  __syncthreads();
  if (threadIdx.x < 2) totals[threadIdx.x] = parts[0][threadIdx.x];
}

}  // namespace

void cross_entropy(CudaExecutor& executor, const kernels::CrossEntropyProblem& p) {
  expect_no_f64("cross_entropy", p.logits);
  const auto* targets = static_cast<const std::int32_t*>(p.targets.data());
  const std::int64_t rows = p.logits.shape(0), V = p.logits.shape(1);
  executor.launch(share_kernel, rows / p.rows_together, kRowThreads, targets, p.rows_together, floats(p.shares));
  const auto losses = [&](auto kernel, int threads) {
    executor.launch(kernel, rows, threads, floats(p.logits), targets, floats(p.shares), V, floats(p.losses),
                    p.dlogits.present() ? floats(p.dlogits) : nullptr,
                    p.target_scores.present() ? floats(p.target_scores) : nullptr,
                    executor.queue().violations("cross_entropy"));
  };
  V > 2 * kShortRowThreads ? losses(loss_kernel<kRowThreads>, kRowThreads)
                           : losses(loss_kernel<kShortRowThreads>, kShortRowThreads);
  executor.launch(totals_kernel, 1, kRowThreads, floats(p.losses), floats(p.shares), targets, rows,
                  static_cast<double*>(p.totals.data()));
}

}  // namespace polyhead::cuda
