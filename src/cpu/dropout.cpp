#include <algorithm>
#include <cmath>

#include "core/philox.h"
#include "cpu/kernels.h"

namespace polyhead::cpu {
namespace {

template <class Stored, class Real>
void drop_row(const Dropout& dropout, std::uint32_t b, std::uint32_t t, const Stored* x, std::int64_t columns,
              Stored* y) {
  const auto threshold = static_cast<std::uint32_t>(std::lround(65536.0 * dropout.p));
  const Real factor = static_cast<Real>(1 / (1 - dropout.p));
  for (std::int64_t begin = 0; begin < columns; begin += 8) {
    const Philox::Words words =
        Philox::words(dropout.seed, {static_cast<std::uint32_t>(begin / 8), t, kernels::kOutputStream, b});
    for (std::int64_t c = begin; c < std::min(begin + 8, columns); ++c) {
      const std::uint32_t bits = (words[static_cast<std::size_t>((c - begin) / 2)] >> (16 * (c % 2))) & 0xffffu;
      y[c] = bits >= threshold ? static_cast<Stored>(factor * static_cast<Real>(x[c])) : static_cast<Stored>(Real{0});
    }
  }
}

template <class Stored, class Real>
void drop_as(Team& team, const kernels::DropoutProblem& problem) {
  const ConstTensorView& x = problem.x;
  const TensorView& y = problem.y;
  const std::int64_t T = x.shape(1), rows = x.shape(0) * T;
  const auto useful = static_cast<std::int64_t>(static_cast<double>(rows * x.shape(2)) / 1e5) + 1;
  const int members =
      static_cast<int>(std::min<std::int64_t>({team.threads(), useful, std::max<std::int64_t>(rows, 1)}));
  team.for_each(rows, std::max<std::int64_t>(1, rows / (8 * members)), members, [&](int) {
    return [&](std::int64_t row) {
      const std::int64_t b = row / T, t = row % T;
      drop_row<Stored, Real>(problem.dropout, static_cast<std::uint32_t>(problem.dropout.origin.sequence + b),
                             static_cast<std::uint32_t>(problem.dropout.origin.row + t),
                             data_of<Stored>(x) + b * x.stride(0) + t * x.stride(1), x.shape(2),
                             data_of<Stored>(y) + b * y.stride(0) + t * y.stride(1));
    };
  });
}

}  // namespace

void drop(Team& team, const kernels::DropoutProblem& problem) {
  switch (problem.x.dtype()) {
    case DType::f64: return drop_as<double, double>(team, problem);
    case DType::f32: return drop_as<float, float>(team, problem);
    case DType::f16: return drop_as<float16, float>(team, problem);
    default: return drop_as<bfloat16, float>(team, problem);
  }
}

}  // namespace polyhead::cpu
