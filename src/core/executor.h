// What a context runs on: one device with its memory, the order of its work and its kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "polyhead/context.h"

namespace polyhead {

namespace kernels {
struct Table;
}

// Intermediate results, each with a slot of its own.
enum class ScratchSlot : std::uint8_t {
  group_0,  // of the layer: q, k and v, or their gradients, by the input that they are made of
  group_1,
  group_2,
  heads,    // of the layer: the concatenated heads
  dheads,   // of the layer: their gradient
  dropped,  // of the layer: the output's gradient after dropout
  kv_proj,  // of the layer: the weights of k and v, one above the other
  rounded,  // of linear: x in 16 bits
  count,
};

// A backend derives from this and hands it to its own kernels. Work is done, or queued, in the order of the calls.
class [[gnu::visibility("hidden")]] Executor {  // named by a public header, but not public
 public:
  Executor(const kernels::Table& kernels, std::shared_ptr<Allocator> allocator)
      : kernels_(kernels), allocator_(std::move(allocator)) {}
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  Device device() const noexcept { return allocator_->device(); }
  const kernels::Table& kernels() const noexcept { return kernels_; }
  const std::shared_ptr<Allocator>& allocator() const noexcept { return allocator_; }
  virtual int threads() const noexcept { return 1; }  // host threads that work on a call
  // What the last bits of results depend on: the device, or the instructions that it was chosen to use.
  virtual std::string target() const { return to_string(device()); }

  Precision precision = Precision::f32;

  // Held by the call that uses the executor: calls on one context take turns. Recursive, for a recording of calls.
  using Turn = std::recursive_mutex;
  virtual Turn& turn() = 0;

  // Waits for everything that was queued. Throws the first error that a kernel found in the values it read and could
  // not throw itself.
  virtual void synchronise() {}

  // Calls that were made once and can be queued again all at once, with the tensors they had, whose contents may have
  // changed; these must live as long.
  class Recording {
   public:
    virtual ~Recording() = default;
    // Returns false, and queues nothing, if memory of the executor's own has moved since: record anew.
    virtual bool replay() = 0;
  };
  // Whether replaying saves time. If so, what `work` queues is run, and kept unless that is not possible: then null.
  // `work` waits for nothing, copies nothing from or to the host, and has run before, so that its memory is there.
  virtual bool records() const noexcept { return false; }
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) {
    work();
    return nullptr;
  }

  // Memory that the kernels of one op share for intermediate results: a tensor of this shape, valid until the slot is
  // asked for again.
  static constexpr std::size_t kScratchSlots = static_cast<std::size_t>(ScratchSlot::count);
  TensorView scratch(ScratchSlot slot, const Dims& shape, DType dtype) {
    const auto bytes = static_cast<std::size_t>(count_of(shape)) * size_of(dtype);
    return TensorView(scratch_bytes(static_cast<std::size_t>(slot), bytes), dtype, shape, contiguous_strides(shape),
                      device());
  }

  // While a Burst lives, worker threads look for the next call before they sleep, since more are about to come.
  class Burst {
   public:
    explicit Burst(Executor& executor) : executor_(executor) { executor_.begin_burst(); }
    ~Burst() { executor_.end_burst(); }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;

   private:
    Executor& executor_;
  };

 protected:
  virtual std::byte* scratch_bytes(std::size_t slot, std::size_t bytes) = 0;
  virtual void begin_burst() {}
  virtual void end_burst() noexcept {}

 private:
  const kernels::Table& kernels_;
  const std::shared_ptr<Allocator> allocator_;
};

}  // namespace polyhead
