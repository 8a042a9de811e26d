// Numbers of float tensors, whatever their type, as f32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "polyhead/tensor.h"

namespace polyhead::cuda::portable {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
// A finite number beyond the range of f32 becomes its largest; infinities stay.
__device__ inline float to_float(double x) {
  if (isinf(x) || isnan(x)) return static_cast<float>(x);
  return static_cast<float>(fmin(fmax(x, -static_cast<double>(FLT_MAX)), static_cast<double>(FLT_MAX)));
}

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline double from_float<double>(float x) {
  return x;
}

// Calls what(x) with a number x of the type, one of the float types that tensors have on the device.
template <class What>
__device__ void with_type(DType dtype, const What& what) {
  switch (dtype) {
    case DType::f16: return what(__half{});
    case DType::bf16: return what(__nv_bfloat16{});
    case DType::f64: return what(double{});
    default: return what(float{});
  }
}

__device__ inline float load(const void* data, DType dtype, std::int64_t at) {
  float value = 0;
  with_type(dtype, [&](auto one) { value = to_float(static_cast<const decltype(one)*>(data)[at]); });
  return value;
}
__device__ inline void store(void* data, DType dtype, std::int64_t at, float value) {
  with_type(dtype, [&](auto one) { static_cast<decltype(one)*>(data)[at] = from_float<decltype(one)>(value); });
}

// The numbers of an f32, f16 or bf16 tensor by their offset: one, or a few neighbours in one access.
class Numbers {
 public:
  explicit Numbers(const ConstTensorView& view) : data_(view.present() ? view.data() : nullptr), dtype_(view.dtype()) {}
  // Whether kCount numbers from any multiple of kCount on can be read in accesses of 16 bytes, or in one of fewer.
  template <int kCount>
  bool is_aligned_for() const {
    return reinterpret_cast<std::uintptr_t>(data_) % std::min<std::size_t>(kCount * size_of(dtype_), 16) == 0;
  }

  __device__ bool present() const { return data_ != nullptr; }
  template <int kCount>
  __device__ void get(std::int64_t at, float (&x)[kCount]) const {
    with_type([&](auto one) {
      using T = decltype(one);
      T in[kCount];
      copy_vector<kCount * sizeof(T), true>(in, static_cast<const T*>(data_) + at);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = to_float(in[i]);
    });
  }
  __device__ float operator[](std::int64_t at) const {
    float x[1];
    get(at, x);
    return x[0];
  }
  template <int kCount>
  struct Fetched {
    float numbers[kCount];
    __device__ void get(float (&x)[kCount]) const {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = numbers[i];
    }
  };
  template <int kCount>
  __device__ Fetched<kCount> fetch(std::int64_t at) const {
    Fetched<kCount> in;
    get(at, in.numbers);
    return in;
  }

 protected:
  __device__ const void* data() const { return data_; }
  template <class What>
  __device__ void with_type(const What& what) const {
    if (dtype_ == DType::f32) return what(float{});
    if (dtype_ == DType::bf16) return what(__nv_bfloat16{});
    what(__half{});
  }
  // Copies between a local array and memory, which is accessed in whole vectors.
  template <int kBytes, bool kLoads>
  __device__ static void copy_vector(void* to, const void* from) {
    using Vector = std::conditional_t<
        kBytes % 16 == 0, uint4,
        std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, std::uint32_t, std::uint16_t>>>;
    static_assert(kBytes % sizeof(Vector) == 0);
#pragma unroll
    for (int n = 0; n < kBytes / static_cast<int>(sizeof(Vector)); ++n) {
      Vector vector;
      if constexpr (kLoads) {
        vector = static_cast<const Vector*>(from)[n];
        std::memcpy(static_cast<char*>(to) + n * sizeof(Vector), &vector, sizeof(Vector));
      } else {
        std::memcpy(&vector, static_cast<const char*>(from) + n * sizeof(Vector), sizeof(Vector));
        static_cast<Vector*>(to)[n] = vector;
      }
    }
  }

 private:
  const void* data_;  // null: absent
  DType dtype_;
};

// The same of a type that the kernel is compiled for. What was fetched is not looked at yet, so that fetches of several
// rows can be under way at once.
template <class T>
class NumbersOf : public Numbers {
 public:
  template <int kCount>
  struct Fetched {
    T numbers[kCount];
    __device__ void get(float (&x)[kCount]) const {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = to_float(numbers[i]);
    }
  };

  using Numbers::Numbers;
  template <int kCount>
  __device__ Fetched<kCount> fetch(std::int64_t at) const {
    Fetched<kCount> in;
    copy_vector<kCount * sizeof(T), true>(in.numbers, static_cast<const T*>(data()) + at);
    return in;
  }
};

// run(the numbers of a view, with their type if it is f32 or bf16).
template <class Run>
void with_numbers_of(const ConstTensorView& view, const Run& run) {
  if (view.dtype() == DType::f32) return run(NumbersOf<float>(view));
  if (view.dtype() == DType::bf16) return run(NumbersOf<__nv_bfloat16>(view));
  run(Numbers(view));
}

class WritableNumbers : public Numbers {
 public:
  explicit WritableNumbers(const TensorView& view) : Numbers(view), data_(view.present() ? view.data() : nullptr) {}

  template <int kCount>
  __device__ void set(std::int64_t at, const float (&x)[kCount]) const {
    with_type([&](auto one) { set_as<decltype(one)>(at, x); });
  }
  __device__ void set(std::int64_t at, float x) const {
    const float one[1] = {x};
    set(at, one);
  }
  template <class T, int kCount>
  __device__ void set_as(std::int64_t at, const float (&x)[kCount]) const {
    T out[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) out[i] = from_float<T>(x[i]);
    copy_vector<kCount * sizeof(T), false>(static_cast<T*>(data_) + at, out);
  }

 private:
  void* data_;
};
template <class T>
class WritableNumbersOf : public WritableNumbers {
 public:
  using WritableNumbers::WritableNumbers;
  template <int kCount>
  __device__ void set(std::int64_t at, const float (&x)[kCount]) const {
    set_as<T>(at, x);
  }
};

}  // namespace polyhead::cuda::portable
