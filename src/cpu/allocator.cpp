#include "cpu/allocator.h"

#include <malloc.h>

#include <algorithm>
#include <bit>

namespace polyhead::cpu {
namespace {

// Smaller blocks are kept by malloc itself.
constexpr std::size_t kSmall = 64 << 10;

// Four sizes per doubling, so that tensors which grow from call to call find what they left.
std::size_t block_size(std::size_t bytes) {
  if (bytes < kSmall) return bytes;
  const std::size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

void* CpuAllocator::allocate(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  if (size < kSmall) return host_->allocate(size);
  if (const std::unique_lock lock(lock_, std::try_to_lock); lock) {
    lent_bytes_ += size;
    most_lent_bytes_ = std::max(most_lent_bytes_, lent_bytes_);
    if (const auto shelf = kept_.find(size); shelf != kept_.end() && !shelf->second.empty()) {
      void* data = shelf->second.back();
      shelf->second.pop_back();
      kept_bytes_ -= size;
      return data;
    }
  }
  try {
    return host_->allocate(size);
  } catch (const std::bad_alloc&) {
    trim();
    return host_->allocate(size);
  }
}

void CpuAllocator::release(void* data, std::size_t bytes) noexcept {
  const std::size_t size = block_size(bytes);
  if (size >= kSmall) {
    if (const std::unique_lock lock(lock_, std::try_to_lock); lock) {
      lent_bytes_ -= std::min(lent_bytes_, size);
      // No more is kept than was ever in use at once.
      if (kept_bytes_ + size <= most_lent_bytes_) {
        try {
          kept_[size].push_back(data);
          kept_bytes_ += size;
          return;
        } catch (...) {  // no memory to remember it by: let it go
        }
      }
    }
  }
  host_->release(data, size);
}

void CpuAllocator::trim() noexcept {
  let_go();
#ifdef __GLIBC__
  malloc_trim(0);  // malloc itself keeps blocks of up to 32 MB
#endif
}

void CpuAllocator::let_go() noexcept {
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock) return;
  for (const auto& [size, blocks] : kept_) {
    for (void* data : blocks) host_->release(data, size);
  }
  kept_.clear();
  kept_bytes_ = 0;
  most_lent_bytes_ = lent_bytes_;
}

}  // namespace polyhead::cpu
