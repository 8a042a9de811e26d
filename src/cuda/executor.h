// The executor of an NVIDIA GPU: one stream, its memory, and workspaces that grow as calls need them.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/executor.h"
#include "cuda/allocator.h"
#include "cuda/error.h"

namespace polyhead::cuda {

class CublasLt;

// Memory that one kernel leaves for the next, besides the slots that ops have. Its contents last for one op.
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

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(int device, std::optional<void*> stream);
  ~CudaExecutor() override;

  Queue& queue() noexcept { return queue_; }
  cudaStream_t stream() const noexcept { return queue_.stream(); }
  CublasLt* cublas();  // null where there is no such library

  Turn& turn() override { return turn_; }
  void synchronise() override { queue_.synchronise(); }
  bool records() const noexcept override;
  std::unique_ptr<Recording> record(const std::function<void()>& work) override;
  // How often a workspace has moved; what was recorded before refers to memory that may have other owners now.
  int moves() const noexcept { return moves_; }

  template <class T>
  T* workspace(Workspace which, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    return reinterpret_cast<T*>(scratch_bytes(kScratchSlots + static_cast<std::size_t>(which), bytes));
  }

  // Numbers that are 0 between calls: blocks that claim or finish work together count with them and leave them at 0.
  int* counters(std::int64_t count);

  // Queues a kernel with a grid of one axis; nothing if it has no blocks.
  template <class... Parameters, class... Arguments>
  void launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, const Arguments&... arguments) {
    launch_with(kernel, blocks, threads, 0, arguments...);
  }
  // The same with shared memory whose size is known at run time.
  template <class... Parameters, class... Arguments>
  void launch_with(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::size_t shared_bytes,
                   const Arguments&... arguments) {
    launch_at(Begin::in_turn, kernel, blocks, threads, shared_bytes, arguments...);
  }
  // The same for a kernel that calls device::wait_for_earlier() before it touches memory.
  template <class... Parameters, class... Arguments>
  void launch_early(void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::size_t shared_bytes,
                    const Arguments&... arguments) {
    launch_at(Begin::early, kernel, blocks, threads, shared_bytes, arguments...);
  }

 private:
  enum class Begin : std::uint8_t { in_turn, early };

  template <class... Parameters, class... Arguments>
  void launch_at(Begin begin, void (*kernel)(Parameters...), std::int64_t blocks, int threads, std::size_t shared_bytes,
                 const Arguments&... arguments) {
    std::tuple<Parameters...> parameters(arguments...);
    std::apply(
        [&](auto&... parameter) {
          void* pointers[] = {const_cast<void*>(static_cast<const void*>(&parameter))...};
          launch_pointers(begin, reinterpret_cast<const void*>(kernel), blocks, threads, shared_bytes, pointers);
        },
        parameters);
  }

  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  std::byte* scratch_bytes(std::size_t slot, std::size_t bytes) override;
  // Whether the code that this GPU runs has the instruction of device::wait_for_earlier().
  bool waits_for_earlier(const void* kernel);
  void launch_pointers(Begin begin, const void* kernel, std::int64_t blocks, int threads, std::size_t shared_bytes,
                       void** parameters);

  CudaAllocator& memory_;
  Queue& queue_;
  Turn turn_;
  int moves_ = 0;
  std::array<Block, kScratchSlots + static_cast<std::size_t>(Workspace::count)> blocks_{};
  std::unique_ptr<CublasLt> cublas_;
  bool cublas_sought_ = false;
  std::int64_t counters_ = 0;
  std::map<const void*, bool> waits_for_earlier_;  // by kernel: asking takes longer than a launch
};

}  // namespace polyhead::cuda
