// The linear map of layers, y = x W^T + b, on a packed GEMM.
#pragma once

#include "polyhead/context.h"
#include "polyhead/export.h"
#include "polyhead/tensor.h"

namespace POLYHEAD_PUBLIC polyhead {

// x [..,K] of rank 1 or more, weight [N,K], bias [N] or absent; y [..,N]. All of one float type, last strides 1; 16-bit
// types are accumulated in f32. With an f32 x the weight may have 16 bits: it is widened inside the product, with the
// bits of the same weight in f32, and its gradient is f32. With 16-bit x and weight, y (and with it the bias), dweight
// and dbias in the caller's memory may be f32: the sums, not rounded. The same bits for any number of threads.
Tensor linear(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const ConstTensorView& bias = {});
void linear_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
                 const TensorView& y);

// dx = dy W, dweight = dy^T x, dbias = the sum of dy over all rows.
struct LinearGradients {
  Tensor dx, dweight, dbias;
};
LinearGradients linear_backward(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                                const ConstTensorView& dy);

// Into the caller's memory, row-major; what is absent is not computed.
struct LinearGradientOutputs {
  TensorView dx{}, dweight{}, dbias{};
};
void linear_backward_into(Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                          const ConstTensorView& dy, const LinearGradientOutputs& outputs);

}  // namespace polyhead
