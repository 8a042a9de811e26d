#include "ops/projection.h"

#include <algorithm>

namespace polyhead::ops {
namespace {

constexpr std::size_t kRounded = 4;  // a scratch slot that no forward op uses

// The stride between rows, in elements, if the leading axes of x form evenly spaced rows; else 0.
std::int64_t row_stride(const ConstTensorView& x) {
  std::int64_t stride = 0, rows = 1;  // of the axes seen so far
  for (int axis = x.rank() - 2; axis >= 0; --axis) {
    if (x.shape(axis) == 1) continue;
    if (rows == 1) stride = x.stride(axis);
    if (x.stride(axis) != rows * stride) return 0;
    rows *= x.shape(axis);
  }
  return rows == 1 ? std::max<std::int64_t>(x.shape(x.rank() - 1), 1) : stride;
}

// [..,K] with evenly spaced rows as [M,K]. The last stride is 1, or K is 1 and the stride does not matter.
template <class View>
View collapsed(const View& x) {
  const int last = x.rank() - 1;
  std::int64_t rows = 1;
  for (int axis = 0; axis < last; ++axis) rows *= x.shape(axis);
  return x.as_strided({rows, x.shape(last)}, {row_stride(x), 1});
}

// The same for any strides of the leading axes; what does not collapse is copied to `copy`.
ConstTensorView matrix(const Call& call, const ConstTensorView& x, Tensor& copy) {
  if (row_stride(x) > 0 || x.count() == 0) return collapsed(x);
  copy = Tensor::empty(x.shape(), x.dtype(), call.executor().allocator());
  call(&Kernels::copy, x, copy);
  return collapsed(ConstTensorView(copy));
}

}  // namespace

void project(const Call& call, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
             const TensorView& y, const ProductExtras& extras) {
  const backend::PackedMatrix* packed = extras.packed;
  Tensor copy;
  ConstTensorView a = matrix(call, x, copy);
  if (packed != nullptr && !packed->pairs && packed->strips.dtype() != weight.dtype()) {  // coarse: x is rounded, too
    const TensorView rounded = call.scratch(kRounded, a.shape(), packed->strips.dtype());
    call(&Kernels::copy, a, rounded);
    a = rounded;
  }
  call(&Kernels::gemm, {.a = a,
                        .b = packed == nullptr ? collapsed(weight).transpose(0, 1) : ConstTensorView{},
                        .packed = packed,
                        .bias = bias,
                        .c = collapsed(y),
                        .plus = extras.plus.present() ? collapsed(extras.plus) : extras.plus,
                        .before_gelu = extras.before_gelu.present() ? collapsed(extras.before_gelu) : TensorView{}});
}

void project_back(const Call& call, const ConstTensorView& dy, const ConstTensorView& weight, const TensorView& dx) {
  Tensor copy;
  call(&Kernels::gemm, {.a = matrix(call, dy, copy), .b = collapsed(weight), .bias = {}, .c = collapsed(dx)});
}

void project_weights(const Call& call, const ConstTensorView& dy, const ConstTensorView& x, const TensorView& dweight,
                     const TensorView& dbias) {
  Tensor dy_copy, x_copy;
  const ConstTensorView upstream = matrix(call, dy, dy_copy);
  if (dweight.present()) {
    call(&Kernels::gemm,
         {.a = upstream.transpose(0, 1), .b = matrix(call, x, x_copy), .bias = {}, .c = collapsed(dweight)});
  }
  if (dbias.present()) call(&Kernels::column_sums, upstream, dbias, {});
}

}  // namespace polyhead::ops
