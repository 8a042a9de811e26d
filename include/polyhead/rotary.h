// Rotary position embedding: pairs of columns of q and k are rotated by an angle proportional to the position, so that
// q . k depends on the distance between the two.
//
//   angle = position * base^(-2 c / dim) for pair c of dim / 2:   (x, y) <- (x cos - y sin, y cos + x sin)
//
// unless scaling or factors slow it down.
#pragma once

#include <cstdint>

#include "polyhead/context.h"
#include "polyhead/export.h"
#include "polyhead/tensor.h"

namespace POLYHEAD_PUBLIC polyhead {

// Which columns form a pair. half: c and c + dim/2, as in Llama and GPT-NeoX. interleaved: 2c and 2c + 1, as in GPT-J.
enum class RotaryLayout : std::uint8_t { half, interleaved };

// Lets a model read further than it was first trained to: pairs turn more slowly, by `factor`. Those that turn `fast`
// times or more within `context` positions keep their pace, those that turn fewer than `slow` times are slowed in full,
// and those between in proportion (Llama 3). With a context of 0 all are slowed in full: linear scaling.
struct RotaryScaling {
  double factor = 1, slow = 1, fast = 4;
  std::int64_t context = 0;
  friend bool operator==(const RotaryScaling&, const RotaryScaling&) = default;
};

struct Rotary {
  RotaryLayout layout = RotaryLayout::half;
  std::int64_t dim = 0;  // how many columns are rotated, from the first on; even; 0: all
  double base = 10000;
  RotaryScaling scaling{};
  ConstTensorView factors{};  // f32 [dim/2]: slow each pair down further, by a factor of its own; absent: 1
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
