#include "ops/check.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/blocks.h"

namespace polyhead::ops {
namespace {

// The lowest and one past the highest element offset that the view touches; throws where that overflows.
std::pair<std::int64_t, std::int64_t> extent(const Argument& argument) {
  std::int64_t low = 0, high = 1;
  const ConstTensorView& view = argument.view;
  if (view.count() == 0) return {0, 0};
  for (int axis = 0; axis < view.rank(); ++axis) {
    std::int64_t reach = 0;
    std::int64_t& side = view.stride(axis) < 0 ? low : high;
    if (__builtin_mul_overflow(view.shape(axis) - 1, view.stride(axis), &reach) ||
        __builtin_add_overflow(side, reach, &side)) {
      argument.refuse(ErrorCode::layout, "strides whose reach fits in 64 bits");
    }
  }
  std::int64_t bytes = 0;
  const auto element = static_cast<std::int64_t>(size_of(view.dtype()));
  if (__builtin_mul_overflow(high, element, &bytes) || __builtin_mul_overflow(low, element, &bytes)) {
    argument.refuse(ErrorCode::layout, "strides whose reach fits in 64 bits");
  }
  return {low, high};
}

}  // namespace

void Argument::refuse(ErrorCode code, const std::string& expected, const std::string& mend) const {
  std::string message = std::string(name) + ": expected " + expected + ", found " + describe(view);
  if (code == ErrorCode::layout) message += " with strides " + to_string(view.strides());
  if (!mend.empty()) message += "; " + mend;
  throw Error(code, op, message);
}

void Argument::expect_shape(const Dims& shape) const {
  if (view.shape() != shape) refuse(ErrorCode::shape, to_string(shape));
}

void Argument::expect_dtype(DType dtype) const {
  if (view.dtype() != dtype) refuse(ErrorCode::dtype, std::string(name_of(dtype)));
}

void Argument::expect_memory() const {
  if (view.device() != op.device) {
    refuse(ErrorCode::device, op.device == Device{} ? "memory of the host" : "memory of " + to_string(op.device),
           "copy it there");
  }
  const bool blocks = view.dtype() == DType::blocks;
  if (!blocks) extent(*this);
  if (view.count() == 0) return;
  if (view.data() == nullptr) refuse(ErrorCode::layout, "data", "its data pointer is null");
  if (blocks) return;
  if (reinterpret_cast<std::uintptr_t>(view.data()) % size_of(view.dtype()) != 0) {
    refuse(ErrorCode::layout, "data aligned to " + std::to_string(size_of(view.dtype())) + " bytes",
           "copy it to aligned memory");
  }
}

void Argument::expect_last_stride_one() const {
  const int last = view.rank() - 1;
  if (view.shape(last) > 1 && view.stride(last) != 1) {
    refuse(ErrorCode::layout, "a last stride of 1", "copy it so that rows are contiguous");
  }
}

void Argument::expect_writable_strides() const {
  if (view.count() <= 1) return;
  // Sorted by stride, each axis must step over all that the smaller ones span.
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.shape(axis) > 1) axes.emplace_back(std::abs(view.stride(axis)), view.shape(axis));
  }
  std::sort(axes.begin(), axes.end());
  std::int64_t span = 1;
  for (const auto& [stride, size] : axes) {
    if (stride < span) refuse(ErrorCode::layout, "strides that give every element a place of its own");
    span = stride * (size - 1) + span;
  }
}

void Argument::expect_input(const Dims& shape, DType dtype, const std::string& mend) const {
  if (!view.present()) refuse(ErrorCode::shape, to_string(shape), mend);
  expect_dtype(dtype);
  expect_shape(shape);
  expect_memory();
}

void Argument::expect_output(bool wanted, const Dims& shape, DType dtype,
                             std::span<const ConstTensorView> others) const {
  if (!wanted && !view.present()) return;
  if (!wanted) throw Error(ErrorCode::value, op, std::string(name) + " was given, but wants does not ask for it");
  if (!view.present()) refuse(ErrorCode::shape, to_string(shape), "wants asks for it");
  expect_dtype(dtype);
  expect_shape(shape);
  expect_memory();
  expect_writable_strides();
  for (const ConstTensorView& other : others) {
    if (overlap(view, other)) refuse(ErrorCode::layout, "memory apart from the inputs and the other outputs");
  }
}

DType weight_type(const ConstTensorView& weight, DType inputs) {
  const DType own = weight.dtype();
  const bool narrow = own == DType::blocks || (is_float(own) && size_of(own) == 2);
  return inputs == DType::f32 && narrow ? own : inputs;
}

DType sum_type(const ConstTensorView& sums, DType numbers) {
  return size_of(numbers) == 2 && sums.dtype() == DType::f32 ? DType::f32 : numbers;
}

bool overlap(const ConstTensorView& a, const ConstTensorView& b) {
  if (!a.present() || !b.present() || a.device() != b.device() || a.count() == 0 || b.count() == 0) return false;
  const auto bytes = [](const ConstTensorView& view) {
    if (view.dtype() == DType::blocks) {
      const auto begin = reinterpret_cast<std::intptr_t>(view.data());
      return std::pair{begin, begin + static_cast<std::intptr_t>(bytes_of_blocks(view))};
    }
    const auto [low, high] = extent({{"tensor", view.device()}, "tensor", view});
    const auto base = reinterpret_cast<std::intptr_t>(view.data());
    const auto element = static_cast<std::int64_t>(size_of(view.dtype()));
    return std::pair{base + low * element, base + high * element};
  };
  const auto [a_low, a_high] = bytes(a);
  const auto [b_low, b_high] = bytes(b);
  return a_low < b_high && b_low < a_high;
}

ConstTensorView broadcast(const Argument& argument, const Dims& shape) {
  const ConstTensorView& view = argument.view;
  const int missing = shape.rank() - view.rank();
  Dims strides(shape.rank(), 0);
  bool fits = missing >= 0;
  for (int axis = std::max(missing, 0); fits && axis < shape.rank(); ++axis) {
    const std::int64_t size = view.shape(axis - missing);
    if (size != 1) strides[axis] = view.stride(axis - missing);
    fits = size == shape[axis] || size == 1;
  }
  if (!fits) {
    argument.refuse(ErrorCode::shape, "a shape that broadcasts to " + to_string(shape),
                    "each axis, counted from the last, must have that size or 1");
  }
  return view.as_strided(shape, strides);
}

}  // namespace polyhead::ops
