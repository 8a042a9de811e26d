// Tiles from global to shared memory by the copy engine (TMA).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/device/barrier.cuh"

namespace polyhead::cuda::device {

// When L2 should evict the bytes.
enum class Keep : std::uint64_t { first_out = 0x12f0000000000000ull, last_out = 0x14f0000000000000ull };

__device__ inline void prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Loads the box at (column, row, head, batch) of a tensor [B,H,T,D]; `full` counts its bytes. Rows outside are 0.
__device__ inline void load_tile(void* to, const CUtensorMap& map, int column, int row, int head, int batch,
                                 Barrier& full, Keep keep) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(to)),
      "l"(&map), "r"(full.address()), "r"(column), "r"(row), "r"(head), "r"(batch),
      "l"(static_cast<std::uint64_t>(keep))
      : "memory");
}

}  // namespace polyhead::cuda::device
