// Products of few rows with what comes before them, with everything resolved: y [M,N] = f(x) W^T + bias + plus. The
// weights are read once, and f(x) is made anew by all who need it, which takes less time than another kernel.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::kernels {

struct GemvProblem {
  enum class Input : std::uint8_t {
    plain,      // f(x) = x [M,K]
    rms_norm,   // x / sqrt(mean(x^2) + epsilon) gamma, not rounded
    silu_gate,  // silu(a) b of x [M,2K] = [a | b], see Gate; not rounded
    gelu_gate,
  };
  Input input = Input::plain;
  ConstTensorView x;        // f32, or in the type of the weights; rows of stride 1
  ConstTensorView gamma{};  // f32 [K], of rms_norm
  double epsilon = 0;
  ConstTensorView weight;  // [N,K], rows of stride 1
  ConstTensorView bias{};  // [N] in y's type, or absent
  ConstTensorView plus{};  // [M,N] in y's type and layout, or absent
  TensorView y;            // rows of stride 1
};

}  // namespace polyhead::kernels
