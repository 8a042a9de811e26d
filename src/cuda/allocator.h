// Memory of a device. Blocks that are released are kept and handed out again: all work on them is in one stream, so a
// block may be reused while the work of its last owner is still queued. Nothing waits for the device, and calls whose
// memory is already there can be captured in a CUDA graph.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/queue.h"
#include "polyhead/tensor.h"

namespace polyhead::cuda {

class CudaAllocator final : public Allocator {
 public:
  CudaAllocator(int device, std::optional<void*> stream) : queue_(device, stream) {}
  ~CudaAllocator() override { trim(); }

  Queue& queue() noexcept { return queue_; }

  Device device() const noexcept override { return {Device::Kind::cuda, queue_.device()}; }
  void* allocate(std::size_t bytes) override;
  void release(void* data, std::size_t bytes) noexcept override;
  void zero(void* data, std::size_t bytes) override;
  void copy_in(void* to, const void* from_host, std::size_t bytes) override;
  void copy_out(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void trim() noexcept override;

 private:
  void* cached(std::size_t size);

  Queue queue_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
};

}  // namespace polyhead::cuda
