// Loops over the columns of a row for ops that treat every element, or every row, alike: whole vectors first, then the
// last few columns one by one, by the same code with a vector of one lane.
#if defined(POLYHEAD_CPU_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_COLUMNS_INL_H_
#undef POLYHEAD_CPU_COLUMNS_INL_H_
#else
#define POLYHEAD_CPU_COLUMNS_INL_H_
#endif

#include "cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// visit(tag, column): read and write hn::Vec<decltype(tag)> there.
template <class T, class Visit>
HWY_INLINE void for_columns(std::size_t columns, const Visit& visit) {
  std::size_t c = 0;
  for (; c + kLanes<T> <= columns; c += kLanes<T>) visit(Tag<T>(), c);
  for (; c < columns; ++c) visit(hn::CappedTag<T, 1>(), c);
}

// The sum of what(tag, column) over all columns: four partial sums, so that additions need not wait for each other.
template <class T, class What>
HWY_INLINE T sum_columns(std::size_t columns, const What& what) {
  const Tag<T> d;
  Vec<T> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  std::size_t c = 0;
  for (; c + 4 * kLanes<T> <= columns; c += 4 * kLanes<T>) {
    for (std::size_t i = 0; i < 4; ++i) sums[i] = hn::Add(sums[i], what(d, c + i * kLanes<T>));
  }
  for (; c + kLanes<T> <= columns; c += kLanes<T>) sums[0] = hn::Add(sums[0], what(d, c));
  T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  for (; c < columns; ++c) total += hn::GetLane(what(hn::CappedTag<T, 1>(), c));
  return total;
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
