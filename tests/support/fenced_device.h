// A second device without a GPU: memory of the host behind Device{cpu,7}, fenced off except while one of the device's
// own kernels or copies runs. Whoever reads or writes it from above the table of kernels dies of SIGSEGV.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "cpu/executor.h"
#include "cpu/kernels.h"
#include "polyhead/context.h"

namespace polyhead::test {

// One mapping that is opened and closed as a whole; what is released is handed out again.
class FencedMemory final : public Allocator {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 26;

  FencedMemory()
      : base_(static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (base_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~FencedMemory() override { munmap(base_, kBytes); }

  // Open while one lives.
  class Gate {
   public:
    explicit Gate(FencedMemory& memory) : memory_(memory) { memory_.open(1); }
    ~Gate() { memory_.open(-1); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

   private:
    FencedMemory& memory_;
  };

  Device device() const noexcept override { return {Device::Kind::cpu, 7}; }
  void* allocate(std::size_t bytes) override {
    const std::lock_guard lock(lock_);
    const std::size_t size = (bytes + 64) / 64 * 64;
    std::vector<std::byte*>& shelf = free_[size];
    if (!shelf.empty()) {
      std::byte* data = shelf.back();
      shelf.pop_back();
      return data;
    }
    if (size > kBytes - used_) throw std::bad_alloc();
    return base_ + std::exchange(used_, used_ + size);
  }
  void release(void* data, std::size_t bytes) noexcept override {
    const std::lock_guard lock(lock_);
    free_[(bytes + 64) / 64 * 64].push_back(static_cast<std::byte*>(data));
  }
  void zero(void* data, std::size_t bytes) override {
    const Gate gate(*this);
    std::memset(data, 0, bytes);
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const Gate gate(*this);
    std::memcpy(to, from, bytes);
  }

 private:
  void open(int by) {
    const std::lock_guard lock(lock_);
    const int before = std::exchange(open_, open_ + by);
    if (before == 0 || open_ == 0) mprotect(base_, kBytes, open_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

  std::byte* base_;
  std::size_t used_ = 0;
  int open_ = 0;
  std::mutex lock_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
};

// Runs the kernels of the CPU on that memory.
class FencedExecutor final : public Executor {
 public:
  explicit FencedExecutor(int threads) : FencedExecutor(threads, std::make_shared<FencedMemory>()) {}

  int threads() const noexcept override { return cpu_.threads(); }
  Turn& turn() override { return cpu_.turn(); }

 private:
  FencedExecutor(int threads, const std::shared_ptr<FencedMemory>& memory)
      : Executor(table(), memory), memory_(*memory), cpu_(threads) {}

  template <auto member>
  struct Fenced;
  template <class Result, class... Arguments, Result (*kernels::Table::*member)(Executor&, Arguments...)>
  struct Fenced<member> {
    static Result call(Executor& executor, Arguments... arguments) {
      auto& self = static_cast<FencedExecutor&>(executor);
      const FencedMemory::Gate gate(self.memory_);
      return (cpu::kernels().*member)(self.cpu_, arguments...);
    }
  };

  static const kernels::Table& table() {
    using K = kernels::Table;
    static constexpr K kernels{.mixes_types = true,  // so that ops check what a GPU would be given
                               .takes_processors = true,
                               .check_attention = Fenced<&K::check_attention>::call,
                               .attend = Fenced<&K::attend>::call,
                               .attend_backward = Fenced<&K::attend_backward>::call,
                               .explain = Fenced<&K::explain>::call,
                               .append = Fenced<&K::append>::call,
                               .gemm = Fenced<&K::gemm>::call,
                               .pack = Fenced<&K::pack>::call,
                               .column_sums = Fenced<&K::column_sums>::call,
                               .round = Fenced<&K::round>::call,
                               .elementwise = Fenced<&K::elementwise>::call,
                               .gate = Fenced<&K::gate>::call,
                               .gate_backward = Fenced<&K::gate_backward>::call,
                               .add_row = Fenced<&K::add_row>::call,
                               .normalise = Fenced<&K::normalise>::call,
                               .normalise_backward = Fenced<&K::normalise_backward>::call,
                               .drop = Fenced<&K::drop>::call,
                               .rotate = Fenced<&K::rotate>::call,
                               .copy = Fenced<&K::copy>::call,
                               .embed = Fenced<&K::embed>::call,
                               .embed_backward = Fenced<&K::embed_backward>::call,
                               .pool = Fenced<&K::pool>::call,
                               .pool_backward = Fenced<&K::pool_backward>::call,
                               .cross_entropy = Fenced<&K::cross_entropy>::call,
                               .sample = Fenced<&K::sample>::call,
                               .adamw = Fenced<&K::adamw>::call,
                               .sums_of_squares = Fenced<&K::sums_of_squares>::call};
    return kernels;
  }

  std::byte* scratch_bytes(std::size_t slot, std::size_t bytes) override {
    Tensor& memory = scratch_[slot];
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (!memory.present() || memory.shape()[0] < wanted) {
      memory = Tensor::empty({wanted}, DType::boolean, allocator());
    }
    return static_cast<std::byte*>(memory.view().data());
  }

  FencedMemory& memory_;
  cpu::CpuExecutor cpu_;
  Tensor scratch_[kScratchSlots];
};

inline Context fenced_context(int threads = 2) { return Context(std::make_unique<FencedExecutor>(threads)); }

}  // namespace polyhead::test
