// Rotary positions with everything resolved.
#pragma once

#include <algorithm>
#include <numbers>

#include "polyhead/rotary.h"

namespace polyhead::kernels {

struct RotaryProblem {
  ConstTensorView x;          // [B,H,T,D]
  TensorView y;               // the same shape; may be x itself
  ConstTensorView positions;  // [B,T], stride 0 over B if shared; absent: row t is at position t
  RotaryLayout layout = RotaryLayout::half;
  std::int64_t dim = 0;
  double base = 10000;
  RotaryScaling scaling{};
  ConstTensorView factors{};  // [dim/2], or absent
  bool backwards = false;
};

// A pair's `rate` after scaling, in radians per position. constexpr, so that device code may call it, too.
constexpr double scaled(double rate, const RotaryScaling& scaling) noexcept {
  const double turns = static_cast<double>(scaling.context) / (2 * std::numbers::pi / rate);
  const double keeps = std::clamp((turns - scaling.slow) / (scaling.fast - scaling.slow), 0.0, 1.0);
  return (1 - keeps) * rate / scaling.factor + keeps * rate;
}

}  // namespace polyhead::kernels
