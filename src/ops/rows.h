// A row-major f32 or f64 tensor as rows of its last axis, and checks of the tensors that go with it.
#pragma once

#include "ops/check.h"

namespace polyhead::ops {

struct RowMajor {
  RowMajor(const Op& the_op, std::string_view name, const ConstTensorView& x)
      : op(the_op), shape(x.shape()), dtype(x.dtype()) {
    const Argument argument{op, name, x};
    if (!x.present() || x.rank() < 1) argument.refuse(ErrorCode::shape, "one axis or more");
    if (dtype != DType::f32 && dtype != DType::f64) argument.refuse(ErrorCode::dtype, "f32 or f64");
    expect(name, x, shape);
    columns = shape[shape.rank() - 1];
    count = columns == 0 ? 0 : x.count() / columns;
  }

  void expect(std::string_view name, const ConstTensorView& view, const Dims& wanted) const {
    expect(name, view, wanted, dtype);
  }
  void expect(std::string_view name, const ConstTensorView& view, const Dims& wanted, DType type) const {
    const Argument argument{op, name, view};
    argument.expect_input(wanted, type);
    if (view.count() > 0 && view.strides() != contiguous_strides(wanted)) {
      argument.refuse(ErrorCode::layout, "row-major memory");
    }
  }
  void expect_like(std::string_view name, const ConstTensorView& view) const { expect(name, view, shape); }
  void expect_vector(std::string_view name, const ConstTensorView& view) const { expect(name, view, {columns}); }

  // [M,C]; what is absent stays so.
  template <class View>
  View view(const View& tensor) const {
    return tensor.present() ? tensor.reshape({count, columns}) : tensor;
  }

  Op op;
  Dims shape;
  DType dtype;
  std::int64_t count = 0, columns = 0;
};

}  // namespace polyhead::ops
