// Dropout of a layer's output: a thread per eight columns, which share their random words.
#include <cmath>

#include "core/philox.h"
#include "cuda/kernels.h"
#include "cuda/portable/arguments.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct Drop {
  Strided x, y;
  std::int64_t rows, columns;  // T, C
  std::int64_t groups;         // of eight columns
  Drops drops;

  __device__ void operator()(std::int64_t n) const {
    const std::int64_t group = n % groups, t = n / groups % rows, b = n / groups / rows;
    const Philox::Words words =
        Philox::words(drops.seed, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(t),
                                   kernels::kOutputStream, static_cast<std::uint32_t>(b)});
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const std::int64_t c = 8 * group + k;
      if (c >= columns) break;
      const bool kept = ((words[k / 2] >> (16 * (k % 2))) & 0xffffu) >= drops.threshold;
      const float value = kept ? drops.factor * load(x.data, x.dtype, x.at(b, t, c)) : 0.0f;
      store(y.data, y.dtype, y.at(b, t, c), value);
    }
  }
};

}  // namespace

void drop(CudaExecutor& executor, const kernels::DropoutProblem& p) {
  expect_no_f64("dropout", p.x);
  expect_no_origin("dropout", p.dropout);
  const std::int64_t groups = (p.x.shape(2) + 7) / 8;
  const Drops drops{true, p.dropout.seed, static_cast<std::uint32_t>(std::lround(65536.0 * p.dropout.p)),
                    static_cast<float>(1 / (1 - p.dropout.p))};
  for_elements(executor, p.x.shape(0) * p.x.shape(1) * groups,
               Drop{Strided(p.x), Strided(p.y), p.x.shape(1), p.x.shape(2), groups, drops});
}

}  // namespace polyhead::cuda
