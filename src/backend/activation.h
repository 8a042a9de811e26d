// Elementwise ops of a transformer's feed-forward part, with everything resolved: tensors are row-major, f32 or f64.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead {
class Team;
}

namespace polyhead::cpu {

// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): GELU as GPT-2 has it.
void gelu(Team& team, const ConstTensorView& x, const TensorView& y);
void gelu_backward(Team& team, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx);

// y [M,F] = silu(a) b for x [M,2F] = [a | b], silu(a) = a / (1 + e^-a): the gate of SwiGLU.
void silu_gate(Team& team, const ConstTensorView& x, const TensorView& y);
void silu_gate_backward(Team& team, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx);

// y [M,C] = x [M,C] + row [C]; y may be x.
void add_row(Team& team, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);

// y = a + b; y may be a or b.
void add(Team& team, const ConstTensorView& a, const ConstTensorView& b, const TensorView& y);

}  // namespace polyhead::cpu
