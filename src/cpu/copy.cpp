// Copies of tensors, from one layout or storage type to another.
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/copy.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// to[0..n) = from[0..n), of one type, or of two float types of which one is f32.
void convert(const void* from, DType from_type, std::size_t n, void* to, DType to_type) {
  if (from_type == to_type) {
    std::memcpy(to, from, n * size_of(to_type));
  } else if (to_type == DType::f32) {
    widen(from, from_type, n, static_cast<float*>(to));
  } else {
    narrow(static_cast<const float*>(from), n, to, to_type);
  }
}

// Row `row` of the view, counted over all axes but the last.
template <class View>
auto* row_of(const View& view, std::int64_t row) {
  std::int64_t at = 0;
  for (int axis = view.rank() - 2; axis >= 0; --axis) {
    at += row % view.shape(axis) * view.stride(axis);
    row /= view.shape(axis);
  }
  return data_of<std::byte>(view) + at * static_cast<std::int64_t>(size_of(view.dtype()));
}

void copy(Team& team, const ConstTensorView& from, const TensorView& to) {
  const int last = to.rank() - 1;
  const std::int64_t columns = last < 0 ? 1 : to.shape(last);
  const bool together = columns == 1 || (last >= 0 && from.stride(last) == 1 && to.stride(last) == 1);
  const auto from_size = static_cast<std::int64_t>(size_of(from.dtype()));
  const auto to_size = static_cast<std::int64_t>(size_of(to.dtype()));
  for_rows(team, RowBlocks(to.count() / columns, columns), [&](std::int64_t row) {
    const std::byte* source = row_of(from, row);
    std::byte* target = row_of(to, row);
    if (together) return convert(source, from.dtype(), static_cast<std::size_t>(columns), target, to.dtype());
    for (std::int64_t c = 0; c < columns; ++c) {
      convert(source + c * from.stride(last) * from_size, from.dtype(), 1, target + c * to.stride(last) * to_size,
              to.dtype());
    }
  });
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(copy);

void copy(Team& team, const ConstTensorView& from, const TensorView& to) {
  if (to.count() == 0) return;
  choose_target();
  HWY_DYNAMIC_DISPATCH(copy)(team, from, to);
}
void round(Team& team, std::span<const ConstTensorView> from, std::span<const TensorView> to) {
  for (std::size_t n = 0; n < from.size(); ++n) copy(team, from[n], to[n]);
}

}  // namespace polyhead::cpu
#endif
