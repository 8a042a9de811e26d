// For kernels that begin while the one before them in the stream is still running, if compiled for sm_90 or later.
// Otherwise these functions do nothing, and such a kernel must be launched like any other.
#pragma once

namespace polyhead::cuda::device {

// The next kernel may begin once all blocks of this one have said so.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits until the kernel before is done and what it wrote can be read.
__device__ inline void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Has the line of 128 bytes at this address brought near. Nothing is read, so it need not wait for earlier writes.
__device__ inline void fetch_to_l2(const void* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#else
  static_cast<void>(address);
#endif
}

}  // namespace polyhead::cuda::device
