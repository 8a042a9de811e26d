// Rotary positions: pairs of columns of q and k are turned by an angle that grows with the position, so that q . k
// depends on the distance of the two.
//
//   angle = position * base^(-2 c / dim) for pair c of dim / 2:   (x, y) <- (x cos - y sin, y cos + x sin)
#pragma once

#include <cstdint>

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead {

// Which columns are a pair. half: c and c + dim/2, as in Llama and GPT-NeoX. interleaved: 2c and 2c + 1, as in GPT-J.
enum class RotaryLayout : std::uint8_t { half, interleaved };

struct Rotary {
  RotaryLayout layout = RotaryLayout::half;
  std::int64_t dim = 0;  // columns that are turned, from the first; even; 0: all
  double base = 10000;
};

// x [B,H,T,D], last stride 1. positions: i32 [T] or [B,T]; absent: 0, 1, 2 ...
Tensor rotate(Context& context, const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions = {});

// Into memory of the caller; y may be x itself.
void rotate_into(Context& context, const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions,
                 const TensorView& y);

// dx from dy: the same turn backwards.
Tensor rotate_backward(Context& context, const ConstTensorView& dy, const Rotary& rotary,
                       const ConstTensorView& positions = {});
void rotate_backward_into(Context& context, const ConstTensorView& dy, const Rotary& rotary,
                          const ConstTensorView& positions, const TensorView& dx);

}  // namespace polyhead
