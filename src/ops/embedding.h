// Rows of a table looked up by index. Tensors are row-major, f32 or f64; a table read into f32 may also have 16 bits.
#pragma once

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

// y [B,T,C] = table [V,C] at indices i32 [B,T] + positions [T or more,C], which may be absent.
void embed(Context& context, const ConstTensorView& table, const ConstTensorView& indices,
           const ConstTensorView& positions, const TensorView& y);
// dtable [V,C] += dy [B,T,C] at the indices.
void embed_backward(Context& context, const ConstTensorView& dy, const ConstTensorView& indices,
                    const TensorView& dtable);
// dpositions [T or more,C] = the sum of dy [B,T,C] over B; 0 beyond T.
void positions_backward(Context& context, const ConstTensorView& dy, const TensorView& dpositions);

// y [B,C] = the mean of x [B,T,C] over the first lengths[b] tokens (i32 [B]; absent: all).
void pool(Context& context, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y);
void pool_backward(Context& context, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx);

}  // namespace polyhead::ops
