// New tokens on their way into the keys and values that are kept, with everything resolved.
#pragma once

#include "kernels/rotary.h"
#include "polyhead/tensor.h"

namespace polyhead::kernels {

struct AppendProblem {
  TensorView q;       // [B,H,n,D]: rotated in place
  TensorView k;       // [B,G,n,D]: rotated on its way; whether it changes itself is left open
  ConstTensorView v;  // [B,G,n,E]
  TensorView keys,
      values;              // [B,G,capacity,D] and [B,G,capacity,E]: of k's and v's type, or of 16 bits if these are f32
  ConstTensorView rows;    // i32 [B], contiguous: token t of sequence b goes to row rows[b] + t, which exists
  RotaryProblem rotary{};  // how to rotate; its x and y are absent. dim 0: nothing is rotated
};

}  // namespace polyhead::kernels
