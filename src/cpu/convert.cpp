#include "backend/convert.h"

#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convert.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

void convert(const ConstTensorView& from, const TensorView& to) {
  const auto columns = static_cast<std::size_t>(to.shape(3));
  const auto row_of = [](const auto& view, auto* data, std::int64_t b, std::int64_t g, std::int64_t j) {
    const std::int64_t at = b * view.stride(0) + g * view.stride(1) + j * view.stride(2);
    return data + at * static_cast<std::int64_t>(size_of(view.dtype()));
  };
  for (std::int64_t b = 0; b < to.shape(0); ++b) {
    for (std::int64_t g = 0; g < to.shape(1); ++g) {
      for (std::int64_t j = 0; j < to.shape(2); ++j) {
        const std::byte* source = row_of(from, static_cast<const std::byte*>(from.data()), b, g, j);
        std::byte* target = row_of(to, static_cast<std::byte*>(to.data()), b, g, j);
        if (from.dtype() == to.dtype()) {
          std::memcpy(target, source, columns * size_of(to.dtype()));
        } else {
          narrow(reinterpret_cast<const float*>(source), columns, target, to.dtype());
        }
      }
    }
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(convert);

void convert(const ConstTensorView& from, const TensorView& to) {
  if (to.count() == 0) return;
  choose_target();
  HWY_DYNAMIC_DISPATCH(convert)(from, to);
}

}  // namespace polyhead::cpu
#endif
