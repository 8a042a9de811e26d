// Rotary positions on the CPU. A row of angles is made once and serves all heads, and all sequences that share their
// positions; the op is bound by memory, so plain loops do.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/kernels.h"

namespace polyhead::cpu {
namespace {

// The angles of one position. Real: float for f32 and 16-bit storage, double for f64.
template <class Real>
struct Rotation {
  std::vector<Real> cosine, sine;  // [dim/2]

  void set(const kernels::RotaryProblem& problem, std::int64_t position, const std::vector<double>& rates) {
    for (std::size_t c = 0; c < rates.size(); ++c) {
      const double angle = static_cast<double>(position) * rates[c];
      cosine[c] = static_cast<Real>(std::cos(angle));
      sine[c] = static_cast<Real>(problem.backwards ? -std::sin(angle) : std::sin(angle));
    }
  }
};

template <class Stored, class Real>
void rotate_row(const kernels::RotaryProblem& problem, const Rotation<Real>& rotation, const Stored* x, Stored* y) {
  const std::int64_t half = problem.dim / 2;
  const bool halves = problem.layout == RotaryLayout::half;
  const std::int64_t step = halves ? 1 : 2, partner = halves ? half : 1;
  for (std::int64_t c = 0; c < half; ++c) {
    const auto a = static_cast<Real>(x[c * step]), b = static_cast<Real>(x[c * step + partner]);
    const Real cosine = rotation.cosine[static_cast<std::size_t>(c)], sine = rotation.sine[static_cast<std::size_t>(c)];
    y[c * step] = static_cast<Stored>(a * cosine - b * sine);
    y[c * step + partner] = static_cast<Stored>(b * cosine + a * sine);
  }
  if (x == y) return;
  for (std::int64_t c = problem.dim; c < problem.x.shape(3); ++c) y[c] = x[c];
}

template <class Stored, class Real>
void rotate_as(Team& team, const kernels::RotaryProblem& problem) {
  const ConstTensorView& x = problem.x;
  const TensorView& y = problem.y;
  const std::int64_t B = x.shape(0), H = x.shape(1), T = x.shape(2);
  const bool shared = !problem.positions.present() || problem.positions.stride(0) == 0;
  std::vector<double> rates(static_cast<std::size_t>(problem.dim / 2));
  for (std::size_t c = 0; c < rates.size(); ++c) {
    rates[c] = kernels::scaled(std::pow(problem.base, -2.0 * static_cast<double>(c) / static_cast<double>(problem.dim)),
                               problem.scaling);
    if (problem.factors.present()) rates[c] /= static_cast<double>(data_of<float>(problem.factors)[c]);
  }
  const std::int64_t items = shared ? T : B * T;
  const double work = static_cast<double>(B * H) * static_cast<double>(T * problem.dim);
  const int members = static_cast<int>(std::min<std::int64_t>(
      {team.threads(), static_cast<std::int64_t>(work / 1e5) + 1, std::max<std::int64_t>(items, 1)}));
  team.for_each(items, std::max<std::int64_t>(1, items / (8 * members)), members, [&](int) {
    Rotation<Real> rotation{std::vector<Real>(rates.size()), std::vector<Real>(rates.size())};
    return [&, rotation](std::int64_t item) mutable {
      const std::int64_t t = item % T, first = shared ? 0 : item / T, last = shared ? B : first + 1;
      const std::int64_t position =
          problem.positions.present()
              ? data_of<std::int32_t>(
                    problem.positions)[first * problem.positions.stride(0) + t * problem.positions.stride(1)]
              : t;
      rotation.set(problem, position, rates);
      for (std::int64_t b = first; b < last; ++b) {
        for (std::int64_t h = 0; h < H; ++h) {
          rotate_row<Stored, Real>(problem, rotation,
                                   data_of<Stored>(x) + b * x.stride(0) + h * x.stride(1) + t * x.stride(2),
                                   data_of<Stored>(y) + b * y.stride(0) + h * y.stride(1) + t * y.stride(2));
        }
      }
    };
  });
}

}  // namespace

void rotate(Team& team, const kernels::RotaryProblem& problem) {
  switch (problem.x.dtype()) {
    case DType::f64: return rotate_as<double, double>(team, problem);
    case DType::f32: return rotate_as<float, float>(team, problem);
    case DType::f16: return rotate_as<float16, float>(team, problem);
    default: return rotate_as<bfloat16, float>(team, problem);
  }
}

}  // namespace polyhead::cpu
