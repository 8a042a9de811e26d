// What threads of a block wait on: mbarriers (which the copy engine can signal too) and the hardware's named barriers.
#pragma once

#include <cstdint>

#include "cuda/device/address.cuh"

namespace polyhead::cuda::device {

// An mbarrier in shared memory. A phase is over when all arrivals and all announced bytes have come; waiting names
// the phase by its parity.
class Barrier {
 public:
  __device__ void initialise(std::uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
  }
  __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory"); }
  // Arrives and announces bytes that the copy engine will bring.
  __device__ void arrive_expecting(std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  __device__ void await(std::uint32_t parity) const {
    while (!is_over(parity)) {
    }
  }
  __device__ std::uint32_t address() const { return shared_address(&state_); }

 private:
  __device__ bool is_over(std::uint32_t parity) const {
    std::uint32_t over;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(over)
        : "r"(address()), "r"(parity)
        : "memory");
    return over != 0;
  }

  std::uint64_t state_;
};

// One thread arrives for its warp.
__device__ inline void release(Barrier& empty) {
  if (threadIdx.x % 32 == 0) empty.arrive();
}

// Makes initialised barriers visible to the copy engine.
__device__ inline void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Orders this thread's ordinary accesses to shared memory before later ones of the tensor cores and the copy engine.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Named barriers: `threads` counts those that sync and those that only arrive.
__device__ inline void named_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Moves registers between the warpgroups of a block; kRegisters is a multiple of 8.
template <int kRegisters>
__device__ inline void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void claim_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace polyhead::cuda::device
