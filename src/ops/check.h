// Small checks with messages that say what was expected and what was found.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "polyhead/tensor.h"

namespace polyhead::ops {

// The call that is checked: its name in messages, and where its tensors have to be.
struct Op {
  std::string_view name;
  Device device;
  operator std::string_view() const noexcept { return name; }
};

// A tensor argument under the name that messages call it by.
struct Argument {
  Op op;
  std::string_view name;
  ConstTensorView view;

  [[noreturn]] void refuse(ErrorCode code, const std::string& expected, const std::string& mend = {}) const;
  void expect_shape(const Dims& shape) const;
  void expect_dtype(DType dtype) const;
  // Memory of the op's device, not null unless empty, aligned to its elements, with extents within 64 bits. O(1): the
  // elements are not read.
  void expect_memory() const;
  void expect_last_stride_one() const;
  // Distinct elements at distinct addresses, so that it can be written.
  void expect_writable_strides() const;
  // An input of the call: present, of this shape and type.
  void expect_input(const Dims& shape, DType dtype, const std::string& mend = {}) const;
  // An output of the call: present exactly if wanted, of this shape and type, and apart from all the others.
  void expect_output(bool wanted, const Dims& shape, DType dtype, std::span<const ConstTensorView> others) const;
};

// The type that a matrix of weights must have: that of the inputs, or its own if it has 16 bits or blocks and the
// inputs are f32, for products widen it.
DType weight_type(const ConstTensorView& weight, DType inputs);

// The type that sums over numbers of this type must have: the same, or f32 if the numbers have 16 bits and the sums are
// f32.
DType sum_type(const ConstTensorView& sums, DType numbers);

// Do the bytes that two tensors span overlap?
bool overlap(const ConstTensorView& a, const ConstTensorView& b);

// A view of the tensor as `shape`, by NumPy's rules: axes align at the right, sizes of 1 and missing axes get stride 0.
ConstTensorView broadcast(const Argument& argument, const Dims& shape);

}  // namespace polyhead::ops
