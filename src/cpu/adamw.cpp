// AdamW on the CPU: one pass over weight, both moments and gradient.
#include <cmath>
#include <numeric>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/adamw.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kRow = 4096;

inline RowBlocks blocks_of(std::int64_t count) { return RowBlocks((count + kRow - 1) / kRow, kRow); }

template <class T>
void adamw_as(Team& team, const backend::AdamWProblem& p) {
  T *weight = data_of<T>(p.weight), *first = data_of<T>(p.first), *second = data_of<T>(p.second);
  const T* gradient = data_of<T>(p.gradient);
  const double c1 = 1 - std::pow(p.beta1, static_cast<double>(p.step));
  const double c2 = 1 - std::pow(p.beta2, static_cast<double>(p.step));
  const T rate = static_cast<T>(p.rate / c1), root = static_cast<T>(1 / std::sqrt(c2)),
          keep = static_cast<T>(1 - p.rate * p.decay);
  // 1 - beta is rounded by itself: taken from a beta of type T it would be off by as many digits as beta is near 1.
  const T fresh1 = static_cast<T>(1 - p.beta1), b2 = static_cast<T>(p.beta2), fresh2 = static_cast<T>(1 - p.beta2),
          epsilon = static_cast<T>(p.epsilon), factor = static_cast<T>(p.gradient_factor);
  const std::int64_t count = p.weight.count();
  const RowBlocks blocks = blocks_of(count);
  for_blocks(team, blocks, [&](std::int64_t block) {
    const auto begin = static_cast<std::size_t>(blocks.begin(block) * kRow);
    const auto end = static_cast<std::size_t>(std::min(count, blocks.end(block) * kRow));
    for_columns<T>(end - begin, [&](auto d, std::size_t c) {
      const std::size_t at = begin + c;
      const auto g = hn::Mul(hn::Set(d, factor), hn::LoadU(d, gradient + at));
      const auto before = hn::LoadU(d, first + at), fresh = hn::Mul(hn::Set(d, fresh2), g);
      const auto m = hn::MulAdd(hn::Set(d, fresh1), hn::Sub(g, before), before);
      const auto v = hn::MulAdd(hn::Set(d, b2), hn::LoadU(d, second + at), hn::Mul(fresh, g));
      const auto denominator = hn::MulAdd(hn::Sqrt(v), hn::Set(d, root), hn::Set(d, epsilon));
      const auto step = hn::Div(hn::Mul(hn::Set(d, rate), m), denominator);
      hn::StoreU(m, d, first + at);
      hn::StoreU(v, d, second + at);
      hn::StoreU(hn::MulSub(hn::LoadU(d, weight + at), hn::Set(d, keep), step), d, weight + at);
    });
  });
}

template <class T>
void sum_of_squares_as(Team& team, const ConstTensorView& x, const TensorView& sum) {
  const T* data = data_of<T>(x);
  const std::int64_t count = x.count();
  const RowBlocks blocks = blocks_of(count);
  std::vector<double> parts(static_cast<std::size_t>(blocks.count));
  for_blocks(team, blocks, [&](std::int64_t block) {
    const auto begin = static_cast<std::size_t>(blocks.begin(block) * kRow);
    const auto end = static_cast<std::size_t>(std::min(count, blocks.end(block) * kRow));
    parts[static_cast<std::size_t>(block)] =
        static_cast<double>(sum_columns<T>(end - begin, [&](auto d, std::size_t c) {
          const auto value = hn::LoadU(d, data + begin + c);
          return hn::Mul(value, value);
        }));
  });
  *data_of<double>(sum) = std::accumulate(parts.begin(), parts.end(), 0.0);
}

void adamw(Team& team, const backend::AdamWProblem& problem) {
  problem.weight.dtype() == DType::f64 ? adamw_as<double>(team, problem) : adamw_as<float>(team, problem);
}
void sum_of_squares(Team& team, const ConstTensorView& x, const TensorView& sum) {
  x.dtype() == DType::f64 ? sum_of_squares_as<double>(team, x, sum) : sum_of_squares_as<float>(team, x, sum);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(adamw);
HWY_EXPORT(sum_of_squares);

void adamw(Team& team, const backend::AdamWProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(adamw)(team, problem);
}
void sum_of_squares(Team& team, const ConstTensorView& x, const TensorView& sum) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(sum_of_squares)(team, x, sum);
}

}  // namespace polyhead::cpu
#endif
