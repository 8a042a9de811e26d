// LayerNorm and RMSNorm, f32: a warp per row.
#include "cuda/kernels.h"
#include "cuda/portable/column_sums.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;
using backend::RowPlaces;

// Rows, wherever each of them lies.
template <class Number>
struct Rows {
  Number* first;  // null if there are none
  RowPlaces places;

  template <class View>
  explicit Rows(const View& view) : first(view.present() ? floats(view) : nullptr), places(view) {}
  __device__ Number* operator[](std::int64_t row) const { return first + places[row]; }
};

struct Normalise {
  Rows<const float> x;
  const float *gamma, *beta;  // beta is null for RMSNorm
  Rows<float> y;
  float* scales;  // or null
  std::int64_t C;
  float epsilon;

  __device__ void operator()(std::int64_t row, int lane) const {
    const float *from = x[row], inverse = 1.0f / static_cast<float>(C);
    float* to = y[row];
    float mean = 0, square = 0;
    if (beta != nullptr) {
      for (std::int64_t c = lane; c < C; c += 32) mean += from[c];
      mean = inverse * warp_sum(mean);
    }
    for (std::int64_t c = lane; c < C; c += 32) square = fmaf(from[c] - mean, from[c] - mean, square);
    const float rstd = 1.0f / sqrtf(fmaf(inverse, warp_sum(square), epsilon));
    for (std::int64_t c = lane; c < C; c += 32) {
      to[c] = fmaf((from[c] - mean) * rstd, gamma[c], beta != nullptr ? beta[c] : 0.0f);
    }
    if (lane == 0 && scales != nullptr) {
      scales[2 * row] = mean;
      scales[2 * row + 1] = rstd;
    }
  }
};

// With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)), the middle term for LayerNorm only.
struct NormaliseBackward {
  Rows<const float> x;
  const float *gamma, *scales;
  Rows<const float> dy, plus;
  Rows<float> dx;
  std::int64_t C;
  bool centred;

  __device__ void operator()(std::int64_t row, int lane) const {
    const float *in = x[row], *up = dy[row], *more = plus.first != nullptr ? plus[row] : nullptr;
    float* to = dx[row];
    const float mean = scales[2 * row], rstd = scales[2 * row + 1], inverse = 1.0f / static_cast<float>(C);
    float mean_g = 0, mean_gu = 0;
    for (std::int64_t c = lane; c < C; c += 32) {
      const float g = __fmul_rn(up[c], gamma[c]);
      mean_g += g;
      mean_gu = fmaf(g, (in[c] - mean) * rstd, mean_gu);
    }
    mean_g = centred ? inverse * warp_sum(mean_g) : 0.0f;
    mean_gu = inverse * warp_sum(mean_gu);
    for (std::int64_t c = lane; c < C; c += 32) {
      // g is rounded as it was for its mean, so that a row of one element gives 0
      const float u = (in[c] - mean) * rstd, g = __fmul_rn(up[c], gamma[c]);
      const float inner = fmaf(-u, mean_gu, g - mean_g);
      to[c] = fmaf(inner, rstd, more != nullptr ? more[c] : 0.0f);
    }
  }
};

// dgamma and dbeta are the sums of this over the rows.
struct ParameterGradients {
  Rows<const float> x;
  const float* scales;
  Rows<const float> dy;
  __device__ float2 operator()(std::int64_t row, int c) const {
    const float up = dy[row][c];
    return {up * ((x[row][c] - scales[2 * row]) * scales[2 * row + 1]), up};
  }
};

std::int64_t columns_of(const ConstTensorView& x) { return x.shape(x.rank() - 1); }

}  // namespace

void normalise(CudaExecutor& executor, const backend::NormProblem& p) {
  expect_no_f64("normalise", p.x);
  for_rows(executor, RowPlaces(p.x).count,
           Normalise{Rows<const float>(p.x), floats(p.gamma), floats_or_null(p.beta), Rows<float>(p.y),
                     p.scales.present() ? floats(p.scales) : nullptr, columns_of(p.x), static_cast<float>(p.epsilon)});
}

void normalise_backward(CudaExecutor& executor, const backend::NormGradientProblem& p) {
  expect_no_f64("normalise_backward", p.x);
  const std::int64_t rows = RowPlaces(p.x).count, C = columns_of(p.x);
  const Rows<const float> x(p.x), dy(p.dy);
  // Before dx is written, which may be dy's own memory.
  sum_columns(executor, rows, C, ParameterGradients{x, floats(p.scales), dy}, p.dgamma, p.dbeta);
  for_rows(executor, rows,
           NormaliseBackward{x, floats(p.gamma), floats(p.scales), dy, Rows<const float>(p.plus), Rows<float>(p.dx), C,
                             p.centred});
}

}  // namespace polyhead::cuda
