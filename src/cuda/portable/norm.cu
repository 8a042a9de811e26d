// LayerNorm and RMSNorm in f32, of rows of f32 or 16 bits: a warp per row, one column or four neighbours per lane.
#include "cuda/kernels.h"
#include "cuda/portable/column_sums.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;
using backend::RowPlaces;

// The rows of a tensor at their RowPlaces.
template <class RowNumbers>
struct RowsOf {
  RowNumbers numbers;
  RowPlaces places;

  template <class View>
  explicit RowsOf(const View& view) : numbers(view), places(view) {}
  bool lie_in_fours() const {
    return numbers.template is_aligned_for<4>() && places.outer % 4 == 0 && places.inner % 4 == 0;
  }
  __device__ bool present() const { return numbers.present(); }
  template <int kCount>
  __device__ void get(std::int64_t row, std::int64_t column, float (&x)[kCount]) const {
    numbers.get(places[row] + column, x);
  }
  template <int kCount>
  __device__ void set(std::int64_t row, std::int64_t column, const float (&x)[kCount]) const {
    numbers.set(places[row] + column, x);
  }
};
using Rows = RowsOf<Numbers>;
using WritableRows = RowsOf<WritableNumbers>;

// what(column) for the first of every kCount columns that a lane has.
template <int kCount, class What>
__device__ void for_columns(int lane, std::int64_t columns, const What& what) {
  for (std::int64_t c = kCount * lane; c < columns; c += 32 * kCount) what(c);
}

template <int kCount>
struct Normalise {
  Rows x;
  const float *gamma, *beta;  // beta is null for RMSNorm
  WritableRows y;
  float* scales;  // or null
  std::int64_t C;
  float epsilon;

  __device__ void operator()(std::int64_t row, int lane) const {
    const float inverse = 1.0f / static_cast<float>(C);
    float in[kCount], mean = 0, square = 0;
    if (beta != nullptr) {
      for_columns<kCount>(lane, C, [&](std::int64_t c) {
        x.get(row, c, in);
        for (int i = 0; i < kCount; ++i) mean += in[i];
      });
      mean = inverse * warp_sum(mean);
    }
    for_columns<kCount>(lane, C, [&](std::int64_t c) {
      x.get(row, c, in);
      for (int i = 0; i < kCount; ++i) square = fmaf(in[i] - mean, in[i] - mean, square);
    });
    const float rstd = 1.0f / sqrtf(fmaf(inverse, warp_sum(square), epsilon));
    for_columns<kCount>(lane, C, [&](std::int64_t c) {
      x.get(row, c, in);
      for (int i = 0; i < kCount; ++i) {
        in[i] = fmaf((in[i] - mean) * rstd, gamma[c + i], beta != nullptr ? beta[c + i] : 0.0f);
      }
      y.set(row, c, in);
    });
    if (lane == 0 && scales != nullptr) {
      scales[2 * row] = mean;
      scales[2 * row + 1] = rstd;
    }
  }
};

// With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)), the middle term for LayerNorm only.
template <int kCount>
struct NormaliseBackward {
  Rows x;
  const float *gamma, *scales;
  Rows dy, plus;
  WritableRows dx;
  std::int64_t C;
  bool centred;

  __device__ void operator()(std::int64_t row, int lane) const {
    const float mean = scales[2 * row], rstd = scales[2 * row + 1], inverse = 1.0f / static_cast<float>(C);
    float in[kCount], up[kCount], more[kCount] = {}, mean_g = 0, mean_gu = 0;
    for_columns<kCount>(lane, C, [&](std::int64_t c) {
      x.get(row, c, in);
      dy.get(row, c, up);
      for (int i = 0; i < kCount; ++i) {
        const float g = __fmul_rn(up[i], gamma[c + i]);
        mean_g += g;
        mean_gu = fmaf(g, (in[i] - mean) * rstd, mean_gu);
      }
    });
    mean_g = centred ? inverse * warp_sum(mean_g) : 0.0f;
    mean_gu = inverse * warp_sum(mean_gu);
    for_columns<kCount>(lane, C, [&](std::int64_t c) {
      x.get(row, c, in);
      dy.get(row, c, up);
      if (plus.present()) plus.get(row, c, more);
      for (int i = 0; i < kCount; ++i) {
        // g is rounded as it was for its mean, so that a row of one element gives 0
        const float u = (in[i] - mean) * rstd, g = __fmul_rn(up[i], gamma[c + i]);
        in[i] = fmaf(fmaf(-u, mean_gu, g - mean_g), rstd, more[i]);
      }
      dx.set(row, c, in);
    });
  }
};

// dgamma and dbeta are the sums of this over the rows.
struct ParameterGradients {
  Rows x;
  const float* scales;
  Rows dy;
  template <int kCount>
  __device__ void operator()(std::int64_t row, int c, float (&first)[kCount], float (&second)[kCount]) const {
    float in[kCount];
    x.get(row, c, in);
    dy.get(row, c, second);
    for (int i = 0; i < kCount; ++i) first[i] = second[i] * ((in[i] - scales[2 * row]) * scales[2 * row + 1]);
  }
};

std::int64_t columns_of(const ConstTensorView& x) { return x.shape(x.rank() - 1); }

template <class... Rows>
bool lie_in_fours(std::int64_t columns, const Rows&... all) {
  return columns % 4 == 0 && (all.lie_in_fours() && ...);
}

}  // namespace

void normalise(CudaExecutor& executor, const backend::NormProblem& p) {
  expect_no_f64("normalise", p.x);
  const Rows x(p.x);
  const WritableRows y(p.y);
  const std::int64_t C = columns_of(p.x);
  const auto run = [&]<int kCount>(std::integral_constant<int, kCount>) {
    for_rows(executor, x.places.count,
             Normalise<kCount>{x, floats(p.gamma), floats_or_null(p.beta), y,
                               p.scales.present() ? floats(p.scales) : nullptr, C, static_cast<float>(p.epsilon)});
  };
  lie_in_fours(C, x, y) ? run(std::integral_constant<int, 4>{}) : run(std::integral_constant<int, 1>{});
}

void normalise_backward(CudaExecutor& executor, const backend::NormGradientProblem& p) {
  expect_no_f64("normalise_backward", p.x);
  const Rows x(p.x), dy(p.dy), plus(p.plus);
  const WritableRows dx(p.dx);
  const std::int64_t rows = x.places.count, C = columns_of(p.x);
  // Before dx is written, which may be dy's own memory.
  sum_columns(executor, rows, C, lie_in_fours(C, x, dy), ParameterGradients{x, floats(p.scales), dy}, p.dgamma,
              p.dbeta);
  const auto run = [&]<int kCount>(std::integral_constant<int, kCount>) {
    for_rows(executor, rows,
             NormaliseBackward<kCount>{x, floats(p.gamma), floats(p.scales), dy, plus, dx, C, p.centred});
  };
  lie_in_fours(C, x, dy, plus, dx) ? run(std::integral_constant<int, 4>{}) : run(std::integral_constant<int, 1>{});
}

}  // namespace polyhead::cuda
