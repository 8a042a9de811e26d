// Rotary positions as defined: the oracle.
#pragma once

#include "polyhead/rotary.h"

namespace polyhead::reference {

// x, y [B,H,T,D] of any float type; computed in double.
void rotate(const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions, const TensorView& y);
// The same by the opposite angles.
void rotate_back(const ConstTensorView& dy, const Rotary& rotary, const ConstTensorView& positions,
                 const TensorView& dx);

}  // namespace polyhead::reference
