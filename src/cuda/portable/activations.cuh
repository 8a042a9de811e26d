// Activations of feed-forward networks, in f32.
#pragma once

namespace polyhead::cuda::portable {

// 1 / (1 + e^-z), from e^-|z| so that nothing overflows.
__device__ inline float sigmoid(float z) {
  const float e = expf(-fabsf(z)),
              small = __fdividef(e, 1 + e);  // off by 2 units at most, and much faster than e / (1 + e)
  return z < 0 ? small : 1 - small;
}

// GELU is x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3), since 1 + tanh u = 2 sigmoid(2 u).
constexpr float kTwiceRoot = 1.5957691216057308f, kCubic = 0.044715f;
__device__ inline float gelu_argument(float x) { return kTwiceRoot * x * fmaf(kCubic, x * x, 1.0f); }
__device__ inline float gelu_slope(float x) {
  const float s = sigmoid(gelu_argument(x)), du = kTwiceRoot * fmaf(3 * kCubic, x * x, 1.0f);
  return s * fmaf(x * du, 1 - s, 1.0f);
}

}  // namespace polyhead::cuda::portable
