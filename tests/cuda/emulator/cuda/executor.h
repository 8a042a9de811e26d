// The executor that kernels are given where there is no GPU: memory of the host under the name of a device, and blocks
// that run when they are launched. Stands in for src/cuda/executor.h.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/executor.h"
#include "cuda/violations.h"
#include "grid.h"

namespace polyhead::cuda {

class CublasLt;

enum class Workspace : std::uint8_t {
  statistics,
  forward,
  rounded,
  partials,
  gradient,
  sums,
  product,
  widened,
  counters,
  count
};

class EmulatedMemory final : public Allocator {
 public:
  Device device() const noexcept override { return {Device::Kind::cuda, 0}; }
  void* allocate(std::size_t bytes) override {
    void* data = std::malloc(bytes + 1);
    if (data == nullptr) throw std::bad_alloc();
    std::memset(data, 0xff, bytes);
    return data;
  }
  void release(void* data, std::size_t) noexcept override { std::free(data); }
  void zero(void* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
  void copy_in(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
};

class Queue {
 public:
  int enter() const { return 0; }
  int capability() const noexcept { return 80; }
  std::string_view why_not_hopper() const { return "the GPU is not a Hopper (sm_90)"; }
  int processors() const noexcept { return 4; }
  std::size_t shared_bytes() const noexcept { return 160 << 10; }
  Violations violations(std::string_view op) {
    ops_.emplace_back(op);
    return {&claimed_, &first_, static_cast<int>(ops_.size()) - 1};
  }
  void synchronise() {
    if (std::exchange(claimed_, 0) == 0) return;
    throw kernels::error_of(ops_[static_cast<std::size_t>(first_.op)], first_.bad);
  }

 private:
  int claimed_ = 0;
  Violation first_;
  std::vector<std::string> ops_;
};

class CudaExecutor final : public Executor {
 public:
  explicit CudaExecutor(const kernels::Table& kernels) : Executor(kernels, std::make_shared<EmulatedMemory>()) {}

  Queue& queue() noexcept { return queue_; }
  cudaStream_t stream() const noexcept { return nullptr; }
  CublasLt* cublas() { return nullptr; }
  int* counters(std::int64_t count) {
    if (count > static_cast<std::int64_t>(counters_.size())) counters_.resize(static_cast<std::size_t>(count));
    return counters_.data();
  }
  Turn& turn() override { return turn_; }
  void synchronise() override { queue_.synchronise(); }

  template <class T>
  T* workspace(Workspace which, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    return reinterpret_cast<T*>(scratch_bytes(kScratchSlots + static_cast<std::size_t>(which), bytes));
  }

  template <class... Parameters, class... Arguments>
  void launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, const Arguments&... arguments) {
    launch_with(kernel, blocks, threads, 0, arguments...);
  }
  template <class... Parameters, class... Arguments>
  void launch_with(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::size_t shared_bytes,
                   const Arguments&... arguments) {
    const std::tuple<Parameters...> parameters(arguments...);
    emulator::run_grid(blocks, threads, shared_bytes, [&] { std::apply(kernel, parameters); });
  }
  template <class... Parameters, class... Arguments>
  void launch_early(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::size_t shared_bytes,
                    const Arguments&... arguments) {
    launch_with(kernel, blocks, threads, shared_bytes, arguments...);
  }

 private:
  // A fresh one every time, so that what is read before it is written shows.
  std::byte* scratch_bytes(std::size_t slot, std::size_t bytes) override {
    scratch_[slot].assign(bytes, std::byte{0xff});
    return scratch_[slot].data();
  }

  Queue queue_;
  Turn turn_;
  std::vector<int> counters_;
  std::array<std::vector<std::byte>, kScratchSlots + static_cast<std::size_t>(Workspace::count)> scratch_;
};

}  // namespace polyhead::cuda
