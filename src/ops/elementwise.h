// Ops that treat every element or every row alike. Tensors are row-major, f32 or f64 (on a GPU f32, f16 or bf16), all
// of one shape unless stated otherwise.
#pragma once

#include <span>

#include "kernels/elementwise.h"
#include "polyhead/context.h"

namespace polyhead::ops {

using kernels::Elementwise, kernels::Gate;

// y = op(a) or op(a, b); y may be a or b. `factor` is that of scale and softcap. sums [C] of a backward, if
// present: the sums of y's columns, before they are rounded to y's type.
void elementwise(Context& context, Elementwise op, const ConstTensorView& a, const ConstTensorView& b,
                 const TensorView& y, double factor = 1, const TensorView& sums = {});

// to = from, rounded to nearest even, for many f32 tensors at once.
void round(Context& context, std::span<const ConstTensorView> from, std::span<const TensorView> to);

// rounded = x, rounded to 16 bits; sums [C], if present: the sums of x's columns.
void round_and_sum(Context& context, const ConstTensorView& x, const TensorView& rounded, const TensorView& sums);

// y [..,F] = f(a) b of x [..,2F] = [a | b].
void gate(Context& context, Gate kind, const ConstTensorView& x, const TensorView& y);
void gate_backward(Context& context, Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx);

// y [..,C] = x [..,C] + row [C]; y may be x. drow = the sum of dy over all rows.
void add_row(Context& context, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);
void add_row_backward(Context& context, const ConstTensorView& dy, const TensorView& drow);

}  // namespace polyhead::ops
