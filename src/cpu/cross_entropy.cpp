// Cross-entropy on the CPU: classes in lanes, loss and gradient in one visit of a row.
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/targets.h"
#include "kernels/bad_value.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

template <class T>
T largest_of(const T* row, std::size_t columns) {
  const Tag<T> d;
  Vec<T> most = hn::Set(d, -kInfinity<T>);
  std::size_t c = 0;
  for (; c + kLanes<T> <= columns; c += kLanes<T>) most = hn::Max(most, hn::LoadU(d, row + c));
  T largest = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; c < columns; ++c) largest = std::max(largest, row[c]);
  return largest;
}

// scores [2] = the target's logit minus the mean of row [columns], and 1 if it is the first of the largest, else 0.
template <class T>
void score_target(const T* row, std::size_t columns, std::size_t target, T largest, T* scores) {
  constexpr std::size_t kBlock = 512;  // sums of few numbers round little
  double sum = 0;
  for (std::size_t begin = 0; begin < columns; begin += kBlock) {
    sum += static_cast<double>(sum_columns<T>(std::min(kBlock, columns - begin),
                                              [&](auto d, std::size_t c) { return hn::LoadU(d, row + begin + c); }));
  }
  scores[0] = static_cast<T>(static_cast<double>(row[target]) - sum / static_cast<double>(columns));
  scores[1] = row[target] == largest && std::find(row, row + target, largest) == row + target ? T{1} : T{0};
}

// dlogits = (softmax - 1 at the target) * share.
template <class T>
void loss_of_row(const kernels::CrossEntropyProblem& problem, std::int64_t row) {
  const auto V = static_cast<std::size_t>(problem.logits.shape(1));
  const T* logits = data_of<T>(problem.logits) + static_cast<std::size_t>(row) * V;
  T* d_row = problem.dlogits.present() ? data_of<T>(problem.dlogits) + static_cast<std::size_t>(row) * V : nullptr;
  const std::int32_t target = data_of<std::int32_t>(problem.targets)[row];
  T& loss = data_of<T>(problem.losses)[row];
  T* scores = problem.target_scores.present() ? data_of<T>(problem.target_scores) + 2 * row : nullptr;
  if (target < 0) {
    loss = 0;
    if (scores != nullptr) scores[0] = scores[1] = 0;
    if (d_row != nullptr) std::fill_n(d_row, V, T{0});
    return;
  }
  const T top = largest_of(logits, V), at_target = logits[target], share = data_of<T>(problem.shares)[row];
  if (scores != nullptr) score_target(logits, V, static_cast<std::size_t>(target), top, scores);
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

void expect_classes(const kernels::CrossEntropyProblem& problem) {
  const std::int64_t rows = problem.logits.shape(0), classes = problem.logits.shape(1);
  const auto* targets = data_of<std::int32_t>(problem.targets);
  for (std::int64_t n = 0; n < rows; ++n) {
    if (targets[n] < classes) continue;
    throw kernels::error_of(
        "cross_entropy",
        {.kind = kernels::BadValue::Kind::classes, .place = {n}, .found = targets[n], .high = classes});
  }
}

std::int64_t count_rows(const std::int32_t* targets, std::int64_t rows) {
  return std::count_if(targets, targets + rows, [](std::int32_t target) { return target >= 0; });
}

template <class T>
void share_out(const kernels::CrossEntropyProblem& problem) {
  const std::int64_t together = problem.rows_together;
  for (std::int64_t begin = 0; begin < problem.logits.shape(0); begin += together) {
    const std::int64_t count = count_rows(data_of<std::int32_t>(problem.targets) + begin, together);
    std::fill_n(data_of<T>(problem.shares) + begin, together, count == 0 ? T{0} : T{1} / static_cast<T>(count));
  }
}

template <class T>
void add_up(const kernels::CrossEntropyProblem& problem) {
  const std::int64_t rows = problem.logits.shape(0);
  const T *losses = data_of<T>(problem.losses), *shares = data_of<T>(problem.shares);
  double sum = 0;
  for (std::int64_t n = 0; n < rows; ++n) sum += static_cast<double>(losses[n]) * static_cast<double>(shares[n]);
  data_of<double>(problem.totals)[0] = sum;
  data_of<double>(problem.totals)[1] = static_cast<double>(count_rows(data_of<std::int32_t>(problem.targets), rows));
}

template <class T>
void cross_entropy_as(Team& team, const kernels::CrossEntropyProblem& problem) {
  share_out<T>(problem);
  const RowBlocks blocks(problem.logits.shape(0), 4 * problem.logits.shape(1));  // an exp costs a few moves
  for_rows(team, blocks, [&](std::int64_t row) { loss_of_row<T>(problem, row); });
  add_up<T>(problem);
}

void cross_entropy(Team& team, const kernels::CrossEntropyProblem& problem) {
  expect_classes(problem);
  problem.logits.dtype() == DType::f64 ? cross_entropy_as<double>(team, problem)
                                       : cross_entropy_as<float>(team, problem);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(cross_entropy);

void cross_entropy(Team& team, const kernels::CrossEntropyProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(cross_entropy)(team, problem);
}

}  // namespace polyhead::cpu
#endif
