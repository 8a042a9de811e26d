// The four neighbouring lanes that share a row of a product, on the tensor cores of every GPU.
#pragma once

#include <cstdint>

namespace polyhead::cuda::device {

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Of numbers that are not negative: they have the order of their bits, and Hopper compares three integers at once.
__device__ inline float largest_of(float a, float b, float c) {
  return __int_as_float(__vimax3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c)));
}

// Word n of the quad's lane q becomes word q of its lane n. Words: four of 32 bits, indexed from 0.
template <class Words>
__device__ void transpose_quad(Words& words) {
  const int q = threadIdx.x % 4;
  const auto exchange = [&](int with, int low, int high) {
    const bool upper = (q & with) != 0;
    const std::uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? words[low] : words[high], with);
    if (upper) {
      words[low] = got;
    } else {
      words[high] = got;
    }
  };
  exchange(1, 0, 1);
  exchange(1, 2, 3);
  exchange(2, 0, 2);
  exchange(2, 1, 3);
}

}  // namespace polyhead::cuda::device
