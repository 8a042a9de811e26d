// Rotary position embedding: pairs of columns of q and k are rotated by an angle proportional to the position, so that
// q . k depends on the distance between the two.
//
//   angle = position * base^(-2 c / dim) for pair c of dim / 2:   (x, y) <- (x cos - y sin, y cos + x sin)
#pragma once

#include <cstdint>

#include "polyhead/context.h"
#include "polyhead/export.h"
#include "polyhead/tensor.h"

namespace POLYHEAD_PUBLIC polyhead {

// Which columns form a pair. half: c and c + dim/2, as in Llama and GPT-NeoX. interleaved: 2c and 2c + 1, as in GPT-J.
enum class RotaryLayout : std::uint8_t { half, interleaved };

struct Rotary {
  RotaryLayout layout = RotaryLayout::half;
  std::int64_t dim = 0;  // how many columns are rotated, from the first on; even; 0: all
  double base = 10000;
};

// x [B,H,T,D], last stride 1. positions: i32 [T] or [B,T]; absent: 0, 1, 2 ...
Tensor rotate(Context& context, const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions = {});

// Into the caller's memory; y may be x itself.
void rotate_into(Context& context, const ConstTensorView& x, const Rotary& rotary, const ConstTensorView& positions,
                 const TensorView& y);

// dx from dy: the inverse rotation.
Tensor rotate_backward(Context& context, const ConstTensorView& dy, const Rotary& rotary,
                       const ConstTensorView& positions = {});
void rotate_backward_into(Context& context, const ConstTensorView& dy, const Rotary& rotary,
                          const ConstTensorView& positions, const TensorView& dx);

}  // namespace polyhead
