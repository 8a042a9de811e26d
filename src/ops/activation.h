// Elementwise ops of the feed-forward part. Tensors are row-major, f32 or f64, all of one shape unless said.
#pragma once

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

// GELU by tanh, as GPT-2 has it.
void gelu(Context& context, const ConstTensorView& x, const TensorView& y);
void gelu_backward(Context& context, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx);

// y [..,F] = silu(a) b of x [..,2F] = [a | b].
void silu_gate(Context& context, const ConstTensorView& x, const TensorView& y);
void silu_gate_backward(Context& context, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx);

// y [..,C] = x [..,C] + row [C]; y may be x. drow = the sum of dy over all rows.
void add_row(Context& context, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);
void add_row_backward(Context& context, const ConstTensorView& dy, const TensorView& drow);

// y = a + b; y may be a or b.
void add(Context& context, const ConstTensorView& a, const ConstTensorView& b, const TensorView& y);

}  // namespace polyhead::ops
