// LayerNorm and RMSNorm on the CPU, columns in lanes.
#include <vector>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

using kernels::RowPlaces;

inline std::size_t columns_of(const ConstTensorView& x) { return static_cast<std::size_t>(x.shape(x.rank() - 1)); }

template <class T>
void normalise_row(const kernels::NormProblem& problem, std::int64_t row) {
  const std::size_t C = columns_of(problem.x);
  const bool centred = problem.beta.present();
  const T *x = data_of<T>(problem.x) + RowPlaces(problem.x)[row], *gamma = data_of<T>(problem.gamma);
  const T* beta = centred ? data_of<T>(problem.beta) : nullptr;
  T* y = data_of<T>(problem.y) + RowPlaces(problem.y)[row];
  const T inverse = T{1} / static_cast<T>(C);
  const T mean =
      centred ? inverse * sum_columns<T>(C, [&](auto d, std::size_t c) { return hn::LoadU(d, x + c); }) : T{0};
  const T square = inverse * sum_columns<T>(C, [&](auto d, std::size_t c) {
                     const auto away = hn::Sub(hn::LoadU(d, x + c), hn::Set(d, mean));
                     return hn::Mul(away, away);
                   });
  const T rstd = T{1} / std::sqrt(square + static_cast<T>(problem.epsilon));
  for_columns<T>(C, [&](auto d, std::size_t c) {
    const auto unit = hn::Mul(hn::Sub(hn::LoadU(d, x + c), hn::Set(d, mean)), hn::Set(d, rstd));
    const auto shift = centred ? hn::LoadU(d, beta + c) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(unit, hn::LoadU(d, gamma + c), shift), d, y + c);
  });
  if (!problem.mean_rstd.present()) return;
  T* mean_rstd = data_of<T>(problem.mean_rstd) + 2 * row;
  mean_rstd[0] = mean;
  mean_rstd[1] = rstd;
}

// With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)), the middle term for LayerNorm only.
// Adds dy u and dy of the row to sums [2][C].
template <class T>
void normalise_row_backward(const kernels::NormGradientProblem& problem, std::int64_t row, T* sums) {
  const std::size_t C = columns_of(problem.x);
  const T *x = data_of<T>(problem.x) + RowPlaces(problem.x)[row],
          *dy = data_of<T>(problem.dy) + RowPlaces(problem.dy)[row], *gamma = data_of<T>(problem.gamma);
  const T* plus = problem.plus.present() ? data_of<T>(problem.plus) + RowPlaces(problem.plus)[row] : nullptr;
  T* dx = data_of<T>(problem.dx) + RowPlaces(problem.dx)[row];
  const T mean = data_of<T>(problem.mean_rstd)[2 * row], rstd = data_of<T>(problem.mean_rstd)[2 * row + 1];
  const auto unit = [&](auto d, std::size_t c) {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + c), hn::Set(d, mean)), hn::Set(d, rstd));
  };
  const auto scaled = [&](auto d, std::size_t c) { return hn::Mul(hn::LoadU(d, dy + c), hn::LoadU(d, gamma + c)); };
  const T inverse = T{1} / static_cast<T>(C);
  const T mean_g = problem.centred ? inverse * sum_columns<T>(C, scaled) : T{0};
  const T mean_gu =
      inverse * sum_columns<T>(C, [&](auto d, std::size_t c) { return hn::Mul(scaled(d, c), unit(d, c)); });
  for_columns<T>(C, [&](auto d, std::size_t c) {
    const auto u = unit(d, c), up = hn::LoadU(d, dy + c);
    const auto inner = hn::NegMulAdd(u, hn::Set(d, mean_gu), hn::Sub(scaled(d, c), hn::Set(d, mean_g)));
    const auto before = plus != nullptr ? hn::LoadU(d, plus + c) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(inner, hn::Set(d, rstd), before), d, dx + c);
    hn::StoreU(hn::MulAdd(up, u, hn::LoadU(d, sums + c)), d, sums + c);
    hn::StoreU(hn::Add(up, hn::LoadU(d, sums + C + c)), d, sums + C + c);
  });
}

template <class T>
void normalise_as(Team& team, const kernels::NormProblem& problem) {
  const auto C = static_cast<std::int64_t>(columns_of(problem.x));
  for_rows(team, RowBlocks(RowPlaces(problem.x).count, C), [&](std::int64_t row) { normalise_row<T>(problem, row); });
}

template <class T>
void normalise_backward_as(Team& team, const kernels::NormGradientProblem& problem) {
  const std::size_t C = columns_of(problem.x);
  const RowBlocks blocks(RowPlaces(problem.x).count, static_cast<std::int64_t>(C));
  std::vector<T> parts(static_cast<std::size_t>(blocks.count) * 2 * C, T{0});  // [blocks][2][C]
  for_blocks(team, blocks, [&](std::int64_t block) {
    T* sums = parts.data() + static_cast<std::size_t>(block) * 2 * C;
    for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
      normalise_row_backward<T>(problem, row, sums);
    }
  });
  const auto total = [&](std::size_t offset, const TensorView& to) {
    T* sums = data_of<T>(to);
    std::fill_n(sums, C, T{0});
    for (std::size_t block = 0; block < static_cast<std::size_t>(blocks.count); ++block) {
      const T* part = parts.data() + block * 2 * C + offset;
      for_columns<T>(C, [&](auto d, std::size_t c) {
        hn::StoreU(hn::Add(hn::LoadU(d, sums + c), hn::LoadU(d, part + c)), d, sums + c);
      });
    }
  };
  total(0, problem.dgamma);
  if (problem.dbeta.present()) total(C, problem.dbeta);
}

void normalise(Team& team, const kernels::NormProblem& problem) {
  problem.x.dtype() == DType::f64 ? normalise_as<double>(team, problem) : normalise_as<float>(team, problem);
}
void normalise_backward(Team& team, const kernels::NormGradientProblem& problem) {
  problem.x.dtype() == DType::f64 ? normalise_backward_as<double>(team, problem)
                                  : normalise_backward_as<float>(team, problem);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(normalise);
HWY_EXPORT(normalise_backward);

void normalise(Team& team, const kernels::NormProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(normalise)(team, problem);
}
void normalise_backward(Team& team, const kernels::NormGradientProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(normalise_backward)(team, problem);
}

}  // namespace polyhead::cpu
#endif
