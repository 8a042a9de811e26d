// Rotary positions as the definition says: the oracle.
#pragma once

#include "polyhead/rotary.h"

namespace polyhead::reference {

// y [B,H,T,D] f64 or any other type; computed in double.
void rotate(const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions, const TensorView& y);
// The turn backwards.
void rotate_back(const ConstTensorView& dy, const Rotary& rotary, const ConstTensorView& positions,
                 const TensorView& dx);

}  // namespace polyhead::reference
