// A row-major tensor as rows of its last axis, and checks of the tensors that go with it.
#pragma once

#include "core/row_major.h"
#include "ops/call.h"
#include "ops/check.h"

namespace polyhead::ops {

// The types that tensors of rows may have.
enum class RowTypes : std::uint8_t {
  one,    // all f32, or all f64
  mixed,  // the same, or each f32, f16 or bf16
};
inline RowTypes row_types(Context& context) { return mixes_types(context) ? RowTypes::mixed : RowTypes::one; }

struct RowMajor {
  RowMajor(const Op& the_op, std::string_view name, const ConstTensorView& x, RowTypes types = RowTypes::one)
      : op(the_op),
        shape(x.shape()),
        dtype(x.dtype()),
        numbers(dtype == DType::f64 ? DType::f64 : DType::f32),
        mixed(types == RowTypes::mixed) {
    const Argument argument{op, name, x};
    if (!x.present() || x.rank() < 1) argument.refuse(ErrorCode::shape, "one axis or more");
    if (dtype != numbers && !fits(dtype)) {
      argument.refuse(ErrorCode::dtype, mixed ? "a float type" : "f32 or f64");
    }
    expect(name, x, shape);
    columns = shape[shape.rank() - 1];
    count = columns == 0 ? 0 : x.count() / columns;
  }

  void expect(std::string_view name, const ConstTensorView& view, const Dims& wanted) const {
    expect(name, view, wanted, fits(view.dtype()) ? view.dtype() : dtype);
  }
  void expect(std::string_view name, const ConstTensorView& view, const Dims& wanted, DType type) const {
    const Argument argument{op, name, view};
    argument.expect_input(wanted, type);
    if (view.count() > 0 && !is_row_major(view)) argument.refuse(ErrorCode::layout, "row-major memory");
  }
  void expect_like(std::string_view name, const ConstTensorView& view) const { expect(name, view, shape); }
  void expect_vector(std::string_view name, const ConstTensorView& view) const {
    expect(name, view, {columns}, numbers);
  }

  // The tensor as [M,C]; an absent one stays absent.
  template <class View>
  View view(const View& tensor) const {
    return tensor.present() ? tensor.reshape({count, columns}) : tensor;
  }

  Op op;
  Dims shape;
  DType dtype, numbers;  // of the first tensor; of tensors with a number per column or row
  bool mixed;
  std::int64_t count = 0, columns = 0;

 private:
  bool fits(DType other) const { return mixed && numbers == DType::f32 && is_float(other) && other != DType::f64; }
};

}  // namespace polyhead::ops
