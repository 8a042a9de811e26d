// A context carries what calls share: the device they run on, its memory, and the thread team or the queue of its work.
#pragma once

#include <memory>

#include "polyhead/tensor.h"

namespace polyhead {

class Executor;

// Make one and keep it. No thread starts before the first call that needs it; between calls the team sleeps.
// Results have the same bits for any number of threads. Calls on one context take turns; for calls that run side by
// side, give each calling thread a context of its own. A context survives fork: the child starts a team of its own when
// needed.
class Context {
 public:
  explicit Context(int threads = 0);  // on the CPU; 0: one per processor that this process may use
  // Throws Error (code device) if this build or this machine has no such device, and says why.
  explicit Context(Device device);
  explicit Context(std::unique_ptr<Executor> executor);  // for the library's own rooms
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  Device device() const noexcept;
  int threads() const noexcept;

  // Memory of the device. What calls return comes from here; memory that is released is kept for the next call.
  const std::shared_ptr<Allocator>& allocator() const noexcept;
  // Gives memory back that no tensor uses.
  void release_memory();
  // Until all calls are done. On the CPU they are when they return; on another device errors in the values of tensors
  // (lengths, indices) may be thrown here, or by the next copy to the host.
  void synchronise();

  Executor& executor() noexcept { return *executor_; }  // for the library's own rooms

 private:
  std::unique_ptr<Executor> executor_;
};

// to <- from: one shape, any strides; each on the host or on the context's device. Types are the same, or both float:
// then numbers are rounded to nearest even.
void copy(Context& context, const ConstTensorView& from, const TensorView& to);
// A row-major copy on the context's device, or on the host.
Tensor clone(Context& context, const ConstTensorView& from);
Tensor to_host(Context& context, const ConstTensorView& from);

}  // namespace polyhead
