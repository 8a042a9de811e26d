// Tensor cores as every GPU from sm_80 on has them: products of 16 x 8 x 16 by a warp (x 8 for TF32), the loads that
// fill their fragments, and copies to shared memory that run alongside.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device/address.cuh"

namespace polyhead::cuda::device {

// Shared memory of the size that the launch asked for.
__device__ inline std::byte* dynamic_shared() {
  extern __shared__ __align__(128) std::byte memory[];
  return memory;
}

// Loads four 8 x 8 matrices of 16-bit elements: lane n gives the address of row n % 8 of matrix n / 8, and gets two
// neighbours of row n / 4 of each matrix; transposed, two neighbours of column n / 4.
__device__ inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}
__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row)));
}

// C [16,8] += A [16,16] B [16,8]. A lane holds columns 2 (lane % 4) and the next of C's rows lane / 4 and lane / 4 + 8.
template <class T>
__device__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
template <>
__device__ inline void multiply_add<__half>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                            std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void multiply_add<__nv_bfloat16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                                   std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// C [16,8] += A [16,8] B [8,8] of TF32, of which a register holds one; its last 13 bits do not count. A lane holds rows
// lane / 4 and lane / 4 + 8 of A's column lane % 4, then of column lane % 4 + 4, and rows lane % 4 and lane % 4 + 4 of
// B's column lane / 4.
__device__ inline void multiply_add_tf32(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// To the nearest TF32.
__device__ inline std::uint32_t to_tf32(float x) {
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// Two numbers in one register, the first in its lower half.
template <class T>
__device__ std::uint32_t pack(float low, float high);
template <>
__device__ inline std::uint32_t pack<__half>(float low, float high) {
  const __half2 two = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&two);
}
template <>
__device__ inline std::uint32_t pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&two);
}

// Queues a copy of 16 bytes to shared memory; of zeros if not `there`, and then `from` may point anywhere.
__device__ inline void copy_later(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
// The same for one f32.
__device__ inline void copy_number_later(float* to, const float* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(there ? 4 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last `kPending` commits of this thread have landed; a barrier makes them visible to others.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float log2_of(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// With an absolute error of some 2e-7.
__device__ inline float tanh_of(float x) {
  return fmaf(-2.0f, reciprocal_of(1.0f + exp2_of(2.885390082f * x)), 1.0f);  // 2 log2(e)
}

}  // namespace polyhead::cuda::device
