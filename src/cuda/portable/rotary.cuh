// By what angle a pair of columns is turned.
#pragma once

#include <cmath>

#include "cuda/portable/arguments.h"
#include "cuda/portable/numbers.cuh"
#include "kernels/rotary.h"

namespace polyhead::cuda::portable {

struct RotaryArguments {
  Strided positions;   // [B,T] i32 or i64; absent: row t is at position t
  std::int64_t half;   // pairs
  std::int64_t units;  // pairs, and columns that are not rotated
  bool halves, backwards;
  double log2_base;
  RotaryScaling scaling;
  const float* factors;  // [half], or null

  RotaryArguments(const kernels::RotaryProblem& p, std::int64_t columns)
      : positions(p.positions),
        half(p.dim / 2),
        units(half + columns - p.dim),
        halves(p.layout == RotaryLayout::half),
        backwards(p.backwards),
        log2_base(std::log2(p.base)),
        scaling(p.scaling),
        factors(static_cast<const float*>(Strided(p.factors).data)) {}

  __device__ std::int64_t position(std::int64_t b, std::int64_t t) const {
    if (!positions.present()) return t;
    const std::int64_t at = b * positions.stride[0] + t * positions.stride[1];
    return positions.dtype == DType::i64 ? static_cast<const std::int64_t*>(positions.data)[at]
                                         : static_cast<const std::int32_t*>(positions.data)[at];
  }
  // Cosine and sine of pair `unit` at token t, computed in double: base^-x as a power of 2, and the angle in half
  // turns, each of which takes a fraction of the time of pow and sincos.
  __device__ float2 turn(std::int64_t b, std::int64_t t, std::int64_t unit) const {
    constexpr double kHalfTurns = 0.31830988618379067154;  // 1 / pi
    double rate = kernels::scaled(exp2(-static_cast<double>(unit) / static_cast<double>(half) * log2_base), scaling);
    if (factors != nullptr) rate /= static_cast<double>(factors[unit]);
    double sine, cosine;
    sincospi(static_cast<double>(position(b, t)) * (rate * kHalfTurns), &sine, &cosine);
    return {static_cast<float>(cosine), static_cast<float>(backwards ? -sine : sine)};
  }
  // The columns of pair `unit`.
  __device__ std::int64_t first(std::int64_t unit) const { return halves ? unit : 2 * unit; }
  __device__ std::int64_t second(std::int64_t unit) const { return halves ? unit + half : 2 * unit + 1; }

  // y = x, turned, of the pair of columns; offsets are those of column 0.
  __device__ void turn_pair(float2 by, std::int64_t unit, const Strided& x, std::int64_t x_at, const Strided& y,
                            std::int64_t y_at) const {
    const float p = load(x.data, x.dtype, x_at + first(unit)), q = load(x.data, x.dtype, x_at + second(unit));
    store(y.data, y.dtype, y_at + first(unit), p * by.x - q * by.y);
    store(y.data, y.dtype, y_at + second(unit), q * by.x + p * by.y);
  }
};

}  // namespace polyhead::cuda::portable
