// Cross-entropy on the CPU: classes in lanes, loss and gradient in one visit of a row.
#include "backend/cross_entropy.h"

#include "cpu/parallel.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

template <class T>
T largest_of(const T* row, std::size_t columns) {
  T largest = -kInfinity<T>;
  for_columns<T>(columns, [&](auto d, std::size_t c) {
    largest = std::max(largest, hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, row + c))));
  });
  return largest;
}

// dlogits = (softmax - 1 at the target) * share.
template <class T>
void loss_of_row(const backend::CrossEntropyProblem& problem, std::int64_t row) {
  const auto V = static_cast<std::size_t>(problem.logits.shape(1));
  const T* logits = problem.logits.as<T>() + static_cast<std::size_t>(row) * V;
  T* d_row = problem.dlogits.present() ? problem.dlogits.as<T>() + static_cast<std::size_t>(row) * V : nullptr;
  const std::int32_t target = problem.targets.as<std::int32_t>()[row];
  T& loss = problem.losses.as<T>()[row];
  if (target < 0) {
    loss = 0;
    if (d_row != nullptr) std::fill_n(d_row, V, T{0});
    return;
  }
  const T top = largest_of(logits, V), at_target = logits[target], share = problem.shares.as<T>()[row];
  const T sum = sum_columns<T>(V, [&](auto d, std::size_t c) {
    const auto x = hn::LoadU(d, logits + c);
    const auto e = hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, hn::Sub(x, hn::Set(d, top))));  // NaN shows in the loss
    if (d_row != nullptr) hn::StoreU(e, d, d_row + c);
    return e;
  });
  loss = top + std::log(sum) - at_target;
  if (d_row == nullptr) return;
  for_columns<T>(V, [&](auto d, std::size_t c) {
    hn::StoreU(hn::Mul(hn::Set(d, share / sum), hn::LoadU(d, d_row + c)), d, d_row + c);
  });
  d_row[target] -= share;
}

template <class T>
void cross_entropy_as(Team& team, const backend::CrossEntropyProblem& problem) {
  const RowBlocks blocks(problem.logits.shape(0), 4 * problem.logits.shape(1));  // an exp is worth a few numbers moved
  for_rows(team, blocks, [&](std::int64_t row) { loss_of_row<T>(problem, row); });
}

void cross_entropy(Team& team, const backend::CrossEntropyProblem& problem) {
  problem.logits.dtype() == DType::f64 ? cross_entropy_as<double>(team, problem)
                                       : cross_entropy_as<float>(team, problem);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(cross_entropy);

void cross_entropy(Team& team, const backend::CrossEntropyProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(cross_entropy)(team, problem);
}

}  // namespace polyhead::cpu
#endif
