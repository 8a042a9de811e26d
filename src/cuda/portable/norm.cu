// LayerNorm and RMSNorm, f32: a warp per row.
#include "cuda/kernels.h"
#include "cuda/portable/column_sums.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct Normalise {
  const float *x, *gamma, *beta;  // beta is null for RMSNorm
  float *y, *scales;
  std::int64_t C;
  float epsilon;

  __device__ void operator()(std::int64_t row, int lane) const {
    const float *from = x + row * C, inverse = 1.0f / static_cast<float>(C);
    float mean = 0, square = 0;
    if (beta != nullptr) {
      for (std::int64_t c = lane; c < C; c += 32) mean += from[c];
      mean = inverse * warp_sum(mean);
    }
    for (std::int64_t c = lane; c < C; c += 32) square = fmaf(from[c] - mean, from[c] - mean, square);
    const float rstd = 1.0f / sqrtf(fmaf(inverse, warp_sum(square), epsilon));
    for (std::int64_t c = lane; c < C; c += 32) {
      y[row * C + c] = fmaf((from[c] - mean) * rstd, gamma[c], beta != nullptr ? beta[c] : 0.0f);
    }
    if (lane == 0) {
      scales[2 * row] = mean;
      scales[2 * row + 1] = rstd;
    }
  }
};

// With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)), the middle term for LayerNorm only.
struct NormaliseBackward {
  const float *x, *gamma, *scales, *dy, *plus;
  float* dx;
  std::int64_t C;
  bool centred;

  __device__ void operator()(std::int64_t row, int lane) const {
    const std::int64_t at = row * C;
    const float mean = scales[2 * row], rstd = scales[2 * row + 1], inverse = 1.0f / static_cast<float>(C);
    float mean_g = 0, mean_gu = 0;
    for (std::int64_t c = lane; c < C; c += 32) {
      const float g = __fmul_rn(dy[at + c], gamma[c]);
      mean_g += g;
      mean_gu = fmaf(g, (x[at + c] - mean) * rstd, mean_gu);
    }
    mean_g = centred ? inverse * warp_sum(mean_g) : 0.0f;
    mean_gu = inverse * warp_sum(mean_gu);
    for (std::int64_t c = lane; c < C; c += 32) {
      // g is rounded as it was for its mean, so that a row of one element gives 0
      const float u = (x[at + c] - mean) * rstd, g = __fmul_rn(dy[at + c], gamma[c]);
      const float inner = fmaf(-u, mean_gu, g - mean_g);
      dx[at + c] = fmaf(inner, rstd, plus != nullptr ? plus[at + c] : 0.0f);
    }
  }
};

// dgamma and dbeta are the sums of this over the rows.
struct ParameterGradients {
  const float *x, *scales, *dy;
  std::int64_t C;
  __device__ float2 operator()(std::int64_t row, int c) const {
    const float up = dy[row * C + c];
    return {up * ((x[row * C + c] - scales[2 * row]) * scales[2 * row + 1]), up};
  }
};

}  // namespace

void normalise(CudaExecutor& executor, const backend::NormProblem& p) {
  expect_no_f64("normalise", p.x);
  for_rows(executor, p.x.shape(0),
           Normalise{floats(p.x), floats(p.gamma), floats_or_null(p.beta), floats(p.y), floats(p.scales), p.x.shape(1),
                     static_cast<float>(p.epsilon)});
}

void normalise_backward(CudaExecutor& executor, const backend::NormGradientProblem& p) {
  expect_no_f64("normalise_backward", p.x);
  const std::int64_t rows = p.x.shape(0), C = p.x.shape(1);
  // Before dx is written, which may be dy's own memory.
  sum_columns(executor, rows, C, ParameterGradients{floats(p.x), floats(p.scales), floats(p.dy), C}, floats(p.dgamma),
              p.dbeta.present() ? floats(p.dbeta) : nullptr);
  for_rows(executor, rows,
           NormaliseBackward{floats(p.x), floats(p.gamma), floats(p.scales), floats(p.dy), floats_or_null(p.plus),
                             floats(p.dx), C, p.centred});
}

}  // namespace polyhead::cuda
