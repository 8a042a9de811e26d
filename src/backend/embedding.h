// Rows of a table looked up by number, and the mean of a sequence, with everything resolved. f32 or f64, row-major.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead {
class Team;
}

namespace polyhead::cpu {

// y [B,T,C] = table [V,C] at indices i32 [B,T] + positions [T or more,C], which may be absent; all row-major.
void embed(Team& team, const ConstTensorView& table, const ConstTensorView& indices, const ConstTensorView& positions,
           const TensorView& y);
// dtable [V,C] += dy [B,T,C] at the indices: the rows that fall on one entry are added in their order, whatever the
// team.
void embed_backward(Team& team, const ConstTensorView& dy, const ConstTensorView& indices, const TensorView& dtable);

// y [B,C] = the mean of x [B,T,C] over the first lengths[b] tokens (i32 [B] or absent: all T, at least one).
void pool(Team& team, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y);
void pool_backward(Team& team, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx);

}  // namespace polyhead::cpu
