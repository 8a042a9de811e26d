// The tensor cores of a warpgroup (wgmma): D [64,N] (+)= A [64,16] B [16,N], in f32 from f16 or bf16. A is in shared
// memory or in registers, B in shared memory, D in registers: thread t holds rows t/4 and t/4 + 8 of its warp's 16,
// d[4j + 2r + e] being row r, column 8j + 2 (t%4) + e. One instruction is one asm statement, and asm statements take no
// template parameters: hence the macros, which end with this file.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/device/barrier.cuh"

namespace polyhead::cuda::device {

// Tiles in shared memory are [rows][64] 16-bit elements, 128 bytes a row, swizzled by the copy engine.
inline constexpr int kTileColumns = 64;
inline constexpr int kTileRowBytes = 128;

// Descriptor of such a tile. describe_rows, where the product sums along a row: 8 rows are 1024 bytes, and the next 16
// columns are 32 bytes on. describe_columns, where it sums along a column: the next 16 rows are 2048 bytes on, and the
// next 64 columns lie `tile_bytes` away.
__device__ inline std::uint64_t describe(const void* tile, std::uint32_t leading_bytes, std::uint32_t stride_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1ull << 62;
  return static_cast<std::uint64_t>((shared_address(tile) & 0x3ffff) >> 4) |
         static_cast<std::uint64_t>(leading_bytes >> 4) << 16 | static_cast<std::uint64_t>(stride_bytes >> 4) << 32 |
         kSwizzle128;
}
__device__ inline std::uint64_t describe_rows(const void* tile) { return describe(tile, 16, 1024); }
__device__ inline std::uint64_t describe_columns(const void* tile, std::uint32_t tile_bytes) {
  return describe(tile, tile_bytes, 1024);
}
// A descriptor `bytes` further on.
__device__ inline std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// Two numbers in one register, the first in its lower half, as pack of mma.cuh has it. A conversion that is an
// intrinsic is scheduled differently, in kernels that were tuned with this one.
template <class T>
__device__ inline std::uint32_t pack_operand(float low, float high) {
  std::uint32_t packed;
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// fence: before the first product that touches registers written by ordinary instructions. commit: after the last
// product of a batch. wait: until at most kPending batches are under way.
__device__ inline void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving uses of the registers across.
template <class T, int kCount>
__device__ inline void pin(T (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (std::is_same_v<T, float>)
      asm volatile("" : "+f"(registers[i])::"memory");
    else
      asm volatile("" : "+r"(registers[i])::"memory");
  }
}

#define POLYHEAD_8(d, i)                                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define POLYHEAD_D64(d) POLYHEAD_8(d, 0), POLYHEAD_8(d, 8), POLYHEAD_8(d, 16), POLYHEAD_8(d, 24)
#define POLYHEAD_D80(d) POLYHEAD_8(d, 0), POLYHEAD_8(d, 8), POLYHEAD_8(d, 16), POLYHEAD_8(d, 24), POLYHEAD_8(d, 32)
#define POLYHEAD_D128(d)                                                                                          \
  POLYHEAD_8(d, 0), POLYHEAD_8(d, 8), POLYHEAD_8(d, 16), POLYHEAD_8(d, 24), POLYHEAD_8(d, 32), POLYHEAD_8(d, 40), \
      POLYHEAD_8(d, 48), POLYHEAD_8(d, 56)
#define POLYHEAD_D256(d)                                                                                          \
  POLYHEAD_8(d, 0), POLYHEAD_8(d, 8), POLYHEAD_8(d, 16), POLYHEAD_8(d, 24), POLYHEAD_8(d, 32), POLYHEAD_8(d, 40), \
      POLYHEAD_8(d, 48), POLYHEAD_8(d, 56), POLYHEAD_8(d, 64), POLYHEAD_8(d, 72), POLYHEAD_8(d, 80),              \
      POLYHEAD_8(d, 88), POLYHEAD_8(d, 96), POLYHEAD_8(d, 104), POLYHEAD_8(d, 112), POLYHEAD_8(d, 120)
#define POLYHEAD_LIST64                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define POLYHEAD_LIST80                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define POLYHEAD_LIST128                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define POLYHEAD_LIST256                                                                         \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// D [64,N] (+)= A [64,16] B [N,16]^T, both in shared memory and summed along their rows; `add` false: D = A B^T.
template <class T, int N>
__device__ inline void mma_shared(float (&d)[N / 2], std::uint64_t a, std::uint64_t b, bool add) {
  const int accumulate = add;
#define POLYHEAD_MMA(N, TYPE, A, B, P)                                                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE \
               "." TYPE " {" POLYHEAD_LIST##N "}, " A ", " B ", p, 1, 1, 0, 0;\n}"                                \
               : POLYHEAD_D##N(d)                                                                                 \
               : "l"(a), "l"(b), "r"(accumulate))
  if constexpr (N == 64) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      POLYHEAD_MMA(64, "bf16", "%32", "%33", "%34");
    else
      POLYHEAD_MMA(64, "f16", "%32", "%33", "%34");
  } else if constexpr (N == 80) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      POLYHEAD_MMA(80, "bf16", "%40", "%41", "%42");
    else
      POLYHEAD_MMA(80, "f16", "%40", "%41", "%42");
  } else if constexpr (N == 128) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      POLYHEAD_MMA(128, "bf16", "%64", "%65", "%66");
    else
      POLYHEAD_MMA(128, "f16", "%64", "%65", "%66");
  } else {
    static_assert(N < 0, "no instruction of this width here");
  }
#undef POLYHEAD_MMA
}

// D [64,N] (+)= A [64,16] B [16,N]: A in registers, laid out as D is; B in shared memory, its rows along N.
template <class T, int N>
__device__ inline void mma_registers(float (&d)[N / 2], const std::uint32_t (&a)[4], std::uint64_t b, bool add) {
  const int accumulate = add;
#define POLYHEAD_MMA(N, TYPE, A, B, P)                                                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE \
               "." TYPE " {" POLYHEAD_LIST##N "}, " A ", " B ", p, 1, 1, 1;\n}"                                   \
               : POLYHEAD_D##N(d)                                                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))
  if constexpr (N == 64) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      POLYHEAD_MMA(64, "bf16", "{%32, %33, %34, %35}", "%36", "%37");
    else
      POLYHEAD_MMA(64, "f16", "{%32, %33, %34, %35}", "%36", "%37");
  } else if constexpr (N == 128) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      POLYHEAD_MMA(128, "bf16", "{%64, %65, %66, %67}", "%68", "%69");
    else
      POLYHEAD_MMA(128, "f16", "{%64, %65, %66, %67}", "%68", "%69");
  } else if constexpr (N == 256) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      POLYHEAD_MMA(256, "bf16", "{%128, %129, %130, %131}", "%132", "%133");
    else
      POLYHEAD_MMA(256, "f16", "{%128, %129, %130, %131}", "%132", "%133");
  } else {
    static_assert(N < 0, "no instruction of this width here");
  }
#undef POLYHEAD_MMA
}

#undef POLYHEAD_8
#undef POLYHEAD_D64
#undef POLYHEAD_LIST64
#undef POLYHEAD_D80
#undef POLYHEAD_LIST80
#undef POLYHEAD_D128
#undef POLYHEAD_LIST128
#undef POLYHEAD_D256
#undef POLYHEAD_LIST256

}  // namespace polyhead::cuda::device
