// Seeded tensors of any element type and layout. The numbers are the same on every platform and standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/hash.h"
#include "polyhead/tensor.h"
#include "reference/array.h"

namespace polyhead::test {

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // A stream of its own for every name, so that a new case leaves the others as they were.
  explicit Random(std::string_view name) : state_(fnv1a(name)) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0,1)
  std::int64_t below(std::int64_t end) { return static_cast<std::int64_t>(uniform() * static_cast<double>(end)); }
  // Mean 0 and variance 1: twelve uniforms are normal enough and need no libm, whose last bit differs between systems.
  double normal() {
    double sum = -6;
    for (int n = 0; n < 12; ++n) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

// Every element <- make(), in row-major order.
template <class Make>
void fill_with(const TensorView& tensor, const Make& make) {
  reference::for_each_offset(tensor.shape(), tensor.strides(),
                             [&](std::int64_t offset) { reference::store(tensor, offset, make()); });
}

inline void fill_normal(const TensorView& tensor, Random& random, double spread = 1) {
  fill_with(tensor, [&] { return spread * random.normal(); });
}

// A tensor of them, a stream of its own for every name.
inline Tensor normal(const Dims& shape, std::string_view name, DType dtype, double spread = 1) {
  Tensor tensor = Tensor::empty(shape, dtype);
  Random random(name);
  fill_normal(tensor, random, spread);
  return tensor;
}

// How [B,H,T,D] lies in memory.
enum class Layout : std::uint8_t {
  heads_outside,   // [B,H,T,D]
  tokens_outside,  // [B,T,H,D], as a projection writes it
  fused,           // q, k and v as slices of one [B,T,(H+2G)D]
};

struct Placed {
  Tensor memory;
  TensorView view;  // [B,H,T,D]
};

// Room for [B,H,T,D], all zero.
inline Placed place(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d, DType dtype, Layout layout) {
  const bool outside = layout == Layout::heads_outside;
  Tensor memory = Tensor::zeros(outside ? Dims{b, h, t, d} : Dims{b, t, h, d}, dtype);
  const TensorView view = outside ? memory.view() : memory.view().transpose(1, 2);
  return {std::move(memory), view};
}

// Heads [begin, end) of [B,T,(heads)D] as [B,end-begin,T,D].
inline TensorView heads_of(const TensorView& fused, std::int64_t begin, std::int64_t end, std::int64_t d) {
  return fused.slice(2, begin * d, end * d).split(2, end - begin).transpose(1, 2);
}

}  // namespace polyhead::test
