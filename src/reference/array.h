// Copies of tensors in the number type of a computation, and stores back into tensors of any element type.
#pragma once

#include <cstdint>
#include <vector>

#include "polyhead/tensor.h"

namespace polyhead::reference {

// The element at `offset` (in elements), whatever its type.
inline double load(const ConstTensorView& tensor, std::int64_t offset) {
  switch (tensor.dtype()) {
    case DType::f64: return tensor.as<double>()[offset];
    case DType::f32: return tensor.as<float>()[offset];
    case DType::f16: return static_cast<float>(tensor.as<float16>()[offset]);
    case DType::bf16: return static_cast<float>(tensor.as<bfloat16>()[offset]);
    case DType::i32: return tensor.as<std::int32_t>()[offset];
    case DType::i64: return static_cast<double>(tensor.as<std::int64_t>()[offset]);
    case DType::boolean: return tensor.as<bool>()[offset] ? 1 : 0;
    case DType::blocks: break;  // whose elements lie in no place of their own
  }
  return 0;
}

// f16 and bf16 are rounded via f32, which adds an error of less than a thousandth of their last place.
inline void store(const TensorView& tensor, std::int64_t offset, double value) {
  switch (tensor.dtype()) {
    case DType::f64: tensor.as<double>()[offset] = value; break;
    case DType::f32: tensor.as<float>()[offset] = static_cast<float>(value); break;
    case DType::f16: tensor.as<float16>()[offset] = float16(static_cast<float>(value)); break;
    case DType::bf16: tensor.as<bfloat16>()[offset] = bfloat16(static_cast<float>(value)); break;
    case DType::i32: tensor.as<std::int32_t>()[offset] = static_cast<std::int32_t>(value); break;
    case DType::i64: tensor.as<std::int64_t>()[offset] = static_cast<std::int64_t>(value); break;
    case DType::boolean: tensor.as<bool>()[offset] = value != 0; break;
    case DType::blocks: break;
  }
}

// visit(offset) for every element, in row-major order of the indices.
template <class Visit>
void for_each_offset(const Dims& shape, const Dims& strides, const Visit& visit) {
  const std::int64_t count = count_of(shape);
  const int last = shape.rank() - 1;
  const std::int64_t length = last < 0 ? 1 : shape[last];
  for (std::int64_t begin = 0; begin < count; begin += length) {
    std::int64_t offset = 0;
    std::int64_t rest = begin / length;
    for (int axis = last - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    for (std::int64_t i = 0; i < length; ++i) visit(offset + (last < 0 ? 0 : i * strides[last]));
  }
}

// Row-major values of some shape. Made from an absent tensor it is absent too.
template <class Real>
class Array {
 public:
  Array() = default;
  Array(const Dims& shape, Real fill)
      : present_(true), shape_(shape), values_(static_cast<std::size_t>(count_of(shape)), fill) {}
  explicit Array(const ConstTensorView& tensor) : present_(tensor.present()), shape_(tensor.shape()) {
    if (!present_) return;
    values_.reserve(static_cast<std::size_t>(tensor.count()));
    for_each_offset(shape_, tensor.strides(),
                    [&](std::int64_t offset) { values_.push_back(static_cast<Real>(load(tensor, offset))); });
  }

  bool present() const noexcept { return present_; }
  int rank() const noexcept { return shape_.rank(); }
  const Dims& shape() const noexcept { return shape_; }
  const std::vector<Real>& values() const noexcept { return values_; }
  std::vector<Real>& values() noexcept { return values_; }

  // A pointer to the element; with fewer indices than axes, to the first element of that row.
  template <class... Index>
  const Real* at(Index... index) const {
    return values_.data() + place(index...);
  }
  template <class... Index>
  Real* at(Index... index) {
    return values_.data() + place(index...);
  }
  template <class... Index>
  const Real& operator()(Index... index) const {
    return values_[static_cast<std::size_t>(place(index...))];
  }
  template <class... Index>
  Real& operator()(Index... index) {
    return values_[static_cast<std::size_t>(place(index...))];
  }

  // The element that NumPy's broadcasting to [B,H,T,S] puts at (b, h, i, j).
  const Real& spread(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return values_[static_cast<std::size_t>(spread_place({b, h, i, j}))];
  }
  Real& spread(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    return values_[static_cast<std::size_t>(spread_place({b, h, i, j}))];
  }

  void store_to(const TensorView& tensor) const {
    std::size_t next = 0;
    for_each_offset(shape_, tensor.strides(),
                    [&](std::int64_t offset) { store(tensor, offset, static_cast<double>(values_[next++])); });
  }

 private:
  template <class... Index>
  std::int64_t place(Index... index) const {
    std::int64_t result = 0;
    int axis = 0;
    ((result = result * shape_[axis++] + index), ...);
    while (axis < rank()) result *= shape_[axis++];
    return result;
  }

  std::int64_t spread_place(const Dims& index) const {
    std::int64_t result = 0;
    for (int axis = 0; axis < rank(); ++axis) {
      result = result * shape_[axis] + (shape_[axis] == 1 ? 0 : index[index.rank() - rank() + axis]);
    }
    return result;
  }

  bool present_ = false;
  Dims shape_;
  std::vector<Real> values_;
};

}  // namespace polyhead::reference
