// Rotary positions: a thread computes one angle, in double, and turns that pair of columns in every head.
#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/rotary.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct Turn {
  Strided x, y;              // [B,H,T,D]
  std::int64_t heads, rows;  // H, T
  RotaryArguments rotary;

  __device__ void operator()(std::int64_t n) const {
    const std::int64_t unit = n % rotary.units, t = n / rotary.units % rows, b = n / rotary.units / rows;
    if (unit >= rotary.half) {  // columns from `dim` on stay as they are
      const std::int64_t c = unit + rotary.half;
      for (std::int64_t h = 0; h < heads; ++h) {
        store(y.data, y.dtype, y.at(b, h, t, c), load(x.data, x.dtype, x.at(b, h, t, c)));
      }
      return;
    }
    const float2 by = rotary.turn(b, t, unit);
    for (std::int64_t h = 0; h < heads; ++h) rotary.turn_pair(by, unit, x, x.at(b, h, t), y, y.at(b, h, t));
  }
};

}  // namespace

void rotate(CudaExecutor& executor, const kernels::RotaryProblem& p) {
  expect_no_f64("rotary", p.x);
  const RotaryArguments rotary(p, p.x.shape(3));
  for_elements(executor, p.x.shape(0) * p.x.shape(2) * rotary.units,
               Turn{Strided(p.x), Strided(p.y), p.x.shape(1), p.x.shape(2), rotary});
}

}  // namespace polyhead::cuda
