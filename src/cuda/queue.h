// The order of a device's work: one stream, and what kernels had to say about the values they read.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/violations.h"

namespace polyhead::cuda {

class Queue {
 public:
  // With a stream of its own, or the caller's. Throws Error (code device) with the reason.
  Queue(int device, std::optional<void*> stream);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  int device() const noexcept { return device_; }
  cudaStream_t stream() const noexcept { return stream_; }
  int processors() const noexcept { return processors_; }
  int capability() const noexcept { return capability_; }              // 90 for sm_90
  std::size_t shared_bytes() const noexcept { return shared_bytes_; }  // the most that a block may have
  // Why Hopper's own kernels are not to be used; empty if they are.
  std::string_view why_not_hopper() const;

  // While it lives, `device` is the current device of the calling thread, which then gets back the one it had. If the
  // device cannot be entered, the next call on it fails.
  class [[nodiscard]] Entered {
   public:
    explicit Entered(int device) noexcept : device_(device) {
      cudaGetDevice(&before_);
      if (before_ != device_) cudaSetDevice(device_);
    }
    ~Entered() {
      if (before_ != device_) cudaSetDevice(before_);
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

   private:
    const int device_;
    int before_ = 0;
  };
  Entered enter() const noexcept { return Entered(device_); }

  // Waits until all work is done; throws the first violation.
  void synchronise();

  // Where a kernel of this op complains.
  Violations violations(std::string_view op);

 private:
  const int device_;
  int processors_ = 0, capability_ = 0;
  bool portable_only_ = false;
  std::size_t shared_bytes_ = 0;
  bool owns_stream_;
  cudaStream_t stream_ = nullptr;
  int* claimed_ = nullptr;          // on the device: 1 once a kernel has complained
  Violation* violation_ = nullptr;  // memory of the host that kernels write to
  std::mutex ops_mutex_;
  std::vector<std::string> ops_;  // by number
};

}  // namespace polyhead::cuda
