// Host memory that is kept when a tensor releases it and lent to the next: fresh pages cost more than many a call.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "polyhead/tensor.h"

namespace polyhead::cpu {

class CpuAllocator final : public Allocator {
 public:
  CpuAllocator() = default;
  ~CpuAllocator() override { let_go(); }

  Device device() const noexcept override { return {}; }
  void* allocate(std::size_t bytes) override;
  void release(void* data, std::size_t bytes) noexcept override;
  void zero(void* data, std::size_t bytes) override { host_->zero(data, bytes); }
  void copy_in(void* to, const void* from, std::size_t bytes) override { host_->copy_in(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override { host_->copy_out(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { host_->copy(to, from, bytes); }
  void trim() noexcept override;

 private:
  void let_go() noexcept;

  // Blocks that nobody uses, by size. The lock is only ever tried: a fork may leave it locked for good in the child,
  // which then does without the kept blocks.
  std::mutex lock_;
  std::map<std::size_t, std::vector<void*>> kept_;
  std::size_t lent_bytes_ = 0, most_lent_bytes_ = 0, kept_bytes_ = 0;
  const std::shared_ptr<Allocator> host_ = host_allocator();
};

}  // namespace polyhead::cpu
