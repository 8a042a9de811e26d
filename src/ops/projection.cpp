#include "ops/projection.h"

#include <algorithm>
#include <cstring>

namespace polyhead::ops {
namespace {

DType computed_in(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// How many elements lie between one row and the next, if all leading axes of x are evenly spaced rows; else 0.
std::int64_t row_stride(const ConstTensorView& x) {
  std::int64_t stride = 0, rows = 1;  // of the axes from here on
  for (int axis = x.rank() - 2; axis >= 0; --axis) {
    if (x.shape(axis) == 1) continue;
    if (rows == 1) stride = x.stride(axis);
    if (x.stride(axis) != rows * stride) return 0;
    rows *= x.shape(axis);
  }
  return rows == 1 ? std::max<std::int64_t>(x.shape(x.rank() - 1), 1) : stride;
}

// [..,K] with evenly spaced rows as [M,K]. The last stride is 1, or K is and the stride means nothing.
template <class View>
View collapsed(const View& x) {
  const int last = x.rank() - 1;
  std::int64_t rows = 1;
  for (int axis = 0; axis < last; ++axis) rows *= x.shape(axis);
  return View(x.data(), x.dtype(), {rows, x.shape(last)}, {row_stride(x), 1}, x.device());
}

void copy_axis(const ConstTensorView& from, int axis, const std::byte* data, std::byte*& to) {
  const auto size = static_cast<std::int64_t>(size_of(from.dtype()));
  if (axis == from.rank() - 1) {
    const std::int64_t bytes = from.shape(axis) * size;
    std::memcpy(to, data, static_cast<std::size_t>(bytes));
    to += bytes;
    return;
  }
  for (std::int64_t i = 0; i < from.shape(axis); ++i)
    copy_axis(from, axis + 1, data + i * from.stride(axis) * size, to);
}

// The same for any strides of the leading axes; what does not collapse is copied to `copy`.
ConstTensorView matrix(const ConstTensorView& x, Tensor& copy) {
  if (row_stride(x) > 0 || x.count() == 0) return collapsed(x);
  copy = Tensor::empty(x.shape(), x.dtype());
  auto* to = static_cast<std::byte*>(copy.view().data());
  if (x.count() > 0) copy_axis(x, 0, static_cast<const std::byte*>(x.data()), to);
  return collapsed(ConstTensorView(copy));
}

// A vector of 16-bit numbers as f32: it is short.
template <class Half>
void widen(const ConstTensorView& from, float* to) {
  for (std::int64_t i = 0; i < from.shape(0); ++i) to[i] = static_cast<float>(from.as<Half>()[i * from.stride(0)]);
}
ConstTensorView in_computed_type(const ConstTensorView& vector, Tensor& copy) {
  if (!vector.present() || vector.dtype() == computed_in(vector.dtype())) return vector;
  copy = Tensor::empty(vector.shape(), DType::f32);
  vector.dtype() == DType::f16 ? widen<float16>(vector, copy.as<float>()) : widen<bfloat16>(vector, copy.as<float>());
  return copy;
}

template <class Half>
void narrow(const Tensor& from, const TensorView& to) {
  for (std::int64_t i = 0; i < to.shape(0); ++i) to.as<Half>()[i] = Half(from.as<float>()[i]);
}

}  // namespace

void project(Team& team, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
             const TensorView& y, const backend::PackedMatrix* packed) {
  Tensor copy, wide;
  cpu::gemm(team, {.a = matrix(x, copy),
                   .b = packed == nullptr ? collapsed(weight).transpose(0, 1) : ConstTensorView{},
                   .packed = packed,
                   .bias = in_computed_type(bias, wide),
                   .c = collapsed(y)});
}

void project_back(Team& team, const ConstTensorView& dy, const ConstTensorView& weight, const TensorView& dx) {
  Tensor copy;
  cpu::gemm(team, {.a = matrix(dy, copy), .b = collapsed(weight), .bias = {}, .c = collapsed(dx)});
}

void project_weights(Team& team, const ConstTensorView& dy, const ConstTensorView& x, const TensorView& dweight,
                     const TensorView& dbias) {
  Tensor dy_copy, x_copy;
  const ConstTensorView upstream = matrix(dy, dy_copy);
  if (dweight.present()) {
    cpu::gemm(team, {.a = upstream.transpose(0, 1), .b = matrix(x, x_copy), .bias = {}, .c = collapsed(dweight)});
  }
  if (!dbias.present()) return;
  if (dbias.dtype() == computed_in(dbias.dtype())) return cpu::column_sums(team, upstream, dbias);
  Tensor sums = Tensor::empty(dbias.shape(), DType::f32);
  cpu::column_sums(team, upstream, sums);
  dbias.dtype() == DType::f16 ? narrow<float16>(sums, dbias) : narrow<bfloat16>(sums, dbias);
}

}  // namespace polyhead::ops
