#include "reference/rotary.h"

#include <cmath>
#include <numbers>

#include "reference/array.h"

namespace polyhead::reference {
namespace {

// Radians per position, of pair c.
double rate_of(std::int64_t c, std::int64_t dim, const Rotary& rotary, const Array<double>& factors) {
  const double rate = std::pow(rotary.base, -2 * static_cast<double>(c) / static_cast<double>(dim));
  const auto& [factor, slow, fast, context] = rotary.scaling;
  const double turns = static_cast<double>(context) / (2 * std::numbers::pi / rate);
  const double own = factors.present() ? factors(c) : 1;
  if (turns >= fast) return rate / own;
  if (turns < slow) return rate / factor / own;
  const double share = (turns - slow) / (fast - slow);
  return ((1 - share) * rate / factor + share * rate) / own;
}

void turn(const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions, double sign,
          const TensorView& y) {
  Array<double> values(x);
  const Array<double> places(positions), factors(rotary.factors);
  const std::int64_t dim = rotary.dim == 0 ? x.shape(3) : rotary.dim;
  for (std::int64_t b = 0; b < x.shape(0); ++b) {
    for (std::int64_t h = 0; h < x.shape(1); ++h) {
      for (std::int64_t t = 0; t < x.shape(2); ++t) {
        const double position = !places.present()    ? static_cast<double>(t)
                                : places.rank() == 1 ? places(t)
                                                     : places(b, t);
        for (std::int64_t c = 0; c < dim / 2; ++c) {
          const double angle = sign * position * rate_of(c, dim, rotary, factors);
          const bool half = rotary.layout == RotaryLayout::half;
          double& first = values(b, h, t, half ? c : 2 * c);
          double& second = values(b, h, t, half ? c + dim / 2 : 2 * c + 1);
          const double turned = first * std::cos(angle) - second * std::sin(angle);
          second = second * std::cos(angle) + first * std::sin(angle);
          first = turned;
        }
      }
    }
  }
  values.store_to(y);
}

}  // namespace

void rotate(const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions, const TensorView& y) {
  turn(x, rotary, positions, 1, y);
}
void rotate_back(const ConstTensorView& dy, const Rotary& rotary, const ConstTensorView& positions,
                 const TensorView& dx) {
  turn(dy, rotary, positions, -1, dx);
}

}  // namespace polyhead::reference
