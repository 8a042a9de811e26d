// Ops that treat every element alike. A new one needs a name here and a case in each backend.
#pragma once

#include <cassert>
#include <cstdint>
#include <string_view>

#include "polyhead/tensor.h"

namespace polyhead::kernels {

// An op is followed by its backward, if it has one: y = op'(a) b.
enum class Elementwise : std::uint8_t {
  gelu,           // y = a/2 (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))): GPT-2's approximation of GELU
  gelu_backward,  // y = gelu'(a) b: a is x, b is dy
  add,            // y = a + b
  erf_gelu,       // y = a/2 (1 + erf(a / sqrt 2)): exact GELU
  erf_gelu_backward,
  scale,    // y = c a
  softcap,  // y = c tanh(a / c)
  softcap_backward,
};

// The activation of the first half of a feed-forward network's columns, which multiplies the second: SwiGLU, GeGLU.
enum class Gate : std::uint8_t { silu, gelu };

constexpr std::string_view name_of(Elementwise op) noexcept {
  constexpr std::string_view kNames[] = {"gelu",    "gelu_backward",   "add", "erf_gelu", "erf_gelu_backward", "scale",
                                         "softcap", "softcap_backward"};
  return kNames[static_cast<std::size_t>(op)];
}
constexpr bool is_backward(Elementwise op) noexcept { return name_of(op).ends_with("_backward"); }
constexpr bool is_binary(Elementwise op) noexcept { return op == Elementwise::add || is_backward(op); }
// Of an op that has one.
constexpr Elementwise backward_of(Elementwise op) noexcept {
  const auto next = static_cast<Elementwise>(static_cast<std::uint8_t>(op) + 1);
  assert(is_backward(next));
  return next;
}

// Row-major, of one shape, f32 or f64; on a GPU each may be f32, f16 or bf16. y may be a or b, if it has the same
// type. b is absent for an op of one argument.
struct ElementwiseProblem {
  Elementwise op{};
  ConstTensorView a, b;  // [M,C]
  TensorView y;
  double factor = 1;  // c
  TensorView sums{};  // of a backward: absent, or [C], the sums of y's columns before they are rounded
};

}  // namespace polyhead::kernels
