// Ops that treat every element or every row alike. Tensors are row-major, f32 or f64, all of one shape unless said.
#pragma once

#include "backend/elementwise.h"
#include "polyhead/context.h"

namespace polyhead::ops {

using backend::Elementwise;

// y = op(a) or op(a, b); y may be a or b.
void elementwise(Context& context, Elementwise op, const ConstTensorView& a, const ConstTensorView& b,
                 const TensorView& y);

// y [..,F] = silu(a) b of x [..,2F] = [a | b].
void silu_gate(Context& context, const ConstTensorView& x, const TensorView& y);
void silu_gate_backward(Context& context, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx);

// y [..,C] = x [..,C] + row [C]; y may be x. drow = the sum of dy over all rows.
void add_row(Context& context, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);
void add_row_backward(Context& context, const ConstTensorView& dy, const TensorView& drow);

}  // namespace polyhead::ops
