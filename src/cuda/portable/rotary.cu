// Rotary positions: a thread computes one angle, in double, and turns that pair of columns in every head.
#include "cuda/kernels.h"
#include "cuda/portable/arguments.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct Turn {
  Strided x, y, positions;            // [B,H,T,D] twice; [B,T] i32 or i64
  std::int64_t heads, rows, columns;  // H, T, D
  std::int64_t half;                  // pairs
  std::int64_t units;                 // pairs, and columns that are not rotated
  bool halves, backwards;
  double base;
  RotaryScaling scaling;
  const float* factors;  // [half], or null

  __device__ std::int64_t position(std::int64_t b, std::int64_t t) const {
    if (!positions.present()) return t;
    const std::int64_t at = b * positions.stride[0] + t * positions.stride[1];
    return positions.dtype == DType::i64 ? static_cast<const std::int64_t*>(positions.data)[at]
                                         : static_cast<const std::int32_t*>(positions.data)[at];
  }

  __device__ void operator()(std::int64_t n) const {
    const std::int64_t unit = n % units, t = n / units % rows, b = n / units / rows;
    if (unit >= half) {  // columns from `dim` on stay as they are
      const std::int64_t c = unit + half;
      for (std::int64_t h = 0; h < heads; ++h) {
        store(y.data, y.dtype, y.at(b, h, t, c), load(x.data, x.dtype, x.at(b, h, t, c)));
      }
      return;
    }
    double rate = backend::scaled(pow(base, -static_cast<double>(2 * unit) / static_cast<double>(2 * half)), scaling);
    if (factors != nullptr) rate /= static_cast<double>(factors[unit]);
    double sine, cosine;
    sincos(static_cast<double>(position(b, t)) * rate, &sine, &cosine);
    const auto turn = static_cast<float>(backwards ? -sine : sine), keep = static_cast<float>(cosine);
    const std::int64_t first = halves ? unit : 2 * unit, second = halves ? unit + half : 2 * unit + 1;
    for (std::int64_t h = 0; h < heads; ++h) {
      const float p = load(x.data, x.dtype, x.at(b, h, t, first)), q = load(x.data, x.dtype, x.at(b, h, t, second));
      store(y.data, y.dtype, y.at(b, h, t, first), p * keep - q * turn);
      store(y.data, y.dtype, y.at(b, h, t, second), q * keep + p * turn);
    }
  }
};

}  // namespace

void rotate(CudaExecutor& executor, const backend::RotaryProblem& p) {
  expect_no_f64("rotary", p.x);
  const std::int64_t half = p.dim / 2, units = half + p.x.shape(3) - p.dim;
  for_elements(executor, p.x.shape(0) * p.x.shape(2) * units,
               Turn{.x = Strided(p.x),
                    .y = Strided(p.y),
                    .positions = Strided(p.positions),
                    .heads = p.x.shape(1),
                    .rows = p.x.shape(2),
                    .columns = p.x.shape(3),
                    .half = half,
                    .units = units,
                    .halves = p.layout == RotaryLayout::half,
                    .backwards = p.backwards,
                    .base = p.base,
                    .scaling = p.scaling,
                    .factors = static_cast<const float*>(Strided(p.factors).data)});
}

}  // namespace polyhead::cuda
