// CUDA's words for device code, on the host: force-included before a .cu file, so that g++ compiles its kernels as
// plain functions. grid.h runs them, every thread of a block as a fiber.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_types.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

#include "grid.h"

#define __CUDACC__
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

#define cuda emulated_cuda  // the same names are in the library, for the GPU

#define threadIdx (polyhead::emulator::thread_index())
#define blockIdx (polyhead::emulator::block_index())

using std::isfinite;
using std::isinf;
using std::isnan;
using std::max;
using std::min;

inline void __syncthreads() { polyhead::emulator::wait_for_block(); }
inline int __syncthreads_or(int x) { return polyhead::emulator::any_of_block(x != 0); }
inline void __syncwarp(unsigned = 0xffffffffu) { polyhead::emulator::wait_for_warp(); }
template <class T>
T __shfl_xor_sync(unsigned, T x, int offset) {
  return polyhead::emulator::exchange(x, [=](int lane) { return lane ^ offset; });
}
template <class T>
T __shfl_sync(unsigned, T x, int from) {
  return polyhead::emulator::exchange(x, [=](int) { return from; });
}
inline unsigned __ballot_sync(unsigned, bool x) { return polyhead::emulator::ballot(x); }
inline bool __any_sync(unsigned, bool x) { return polyhead::emulator::ballot(x) != 0; }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline void __threadfence() {}
template <class T>
T __ldcg(const T* place) {
  return *place;
}
inline int atomicExch(int* place, int x) { return std::exchange(*place, x); }
template <class T>
T atomicAdd(T* place, T x) {
  return std::exchange(*place, *place + x);
}

template <class T>
T __ldcs(const T* place) {
  return *place;
}
// Byte n of the result is the byte of (high:low) that digit n of the selector names.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  unsigned result = 0;
  for (int n = 0; n < 4; ++n) result |= static_cast<unsigned>(both >> (selector >> 4 * n & 7) * 8 & 0xff) << 8 * n;
  return result;
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __vimax3_s32(int a, int b, int c) { return std::max({a, b, c}); }
inline void sincospi(double x, double* sine, double* cosine) {
  *sine = std::sin(std::numbers::pi * x);
  *cosine = std::cos(std::numbers::pi * x);
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
