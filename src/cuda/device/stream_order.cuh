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

}  // namespace polyhead::cuda::device
