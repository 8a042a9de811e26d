#include "cuda/allocator.h"

#include <bit>
#include <new>

#include "cuda/error.h"

namespace polyhead::cuda {
namespace {

// Sizes come in steps of an eighth of the power of two below them, so that tensors of nearly the same size share
// blocks; the least is 512 bytes.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::max<std::size_t>(512, std::bit_floor(std::max<std::size_t>(bytes, 1)) / 8);
  return (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

}  // namespace

void* CudaAllocator::cached(std::size_t size) {
  const auto blocks = free_.find(size);
  if (blocks == free_.end() || blocks->second.empty()) return nullptr;
  void* data = blocks->second.back();
  blocks->second.pop_back();
  return data;
}

void* CudaAllocator::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  {
    const std::lock_guard lock(mutex_);
    if (void* data = cached(size)) return data;
  }
  const auto entered = queue_.enter();
  void* data = nullptr;
  cudaError_t status = cudaMalloc(&data, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    trim();
    status = cudaMalloc(&data, size);
  }
  check(status, "cudaMalloc of " + std::to_string(size) + " bytes");
  return data;
}

void CudaAllocator::release(void* data, std::size_t bytes) noexcept {
  if (data == nullptr) return;
  const std::lock_guard lock(mutex_);
  try {
    free_[rounded(bytes)].push_back(data);
  } catch (const std::bad_alloc&) {
    cudaFree(data);
  }
}

void CudaAllocator::zero(void* data, std::size_t bytes) {
  if (bytes == 0) return;
  const auto entered = queue_.enter();
  check(cudaMemsetAsync(data, 0, bytes, queue_.stream()), "cudaMemsetAsync");
}

// The runtime stages host memory that is not pinned before it returns.
void CudaAllocator::copy_in(void* to, const void* from_host, std::size_t bytes) {
  if (bytes == 0) return;
  const auto entered = queue_.enter();
  check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, queue_.stream()),
        "cudaMemcpyAsync to the device");
}

void CudaAllocator::copy_out(void* to_host, const void* from, std::size_t bytes) {
  const auto entered = queue_.enter();
  if (bytes > 0) {
    check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, queue_.stream()),
          "cudaMemcpyAsync to the host");
  }
  queue_.synchronise();
}

void CudaAllocator::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const auto entered = queue_.enter();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue_.stream()), "cudaMemcpyAsync");
}

void CudaAllocator::trim() noexcept {
  const auto entered = queue_.enter();
  const std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : free_) {
    for (void* data : blocks) cudaFree(data);
  }
  free_.clear();
}

}  // namespace polyhead::cuda
