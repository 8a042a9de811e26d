// A context carries what calls share: the device they run on, its memory, and its thread team or stream.
#pragma once

#include <cstdint>
#include <memory>

#include "polyhead/export.h"
#include "polyhead/tensor.h"

namespace POLYHEAD_PUBLIC polyhead {

class Executor;

// What may be rounded for speed, on a GPU, whose tensor cores are then several times as fast; sums are f32 in any case.
// On a CPU bf16 rounds the operands of f32 products, if it has AVX512-BF16, and nothing else is rounded.
enum class Precision : std::uint8_t {
  f32,   // nothing is rounded
  tf32,  // the operands of f32 matrix products, attention's among them: to TF32, with f32's exponent and a 10-bit
         // mantissa
  bf16,  // as tf32; also to bf16, 7-bit mantissa: the matrices of a model that is loaded, what its blocks compute
         // except for norms, softmax, the residual stream and logits, and f32 attention where Hopper's kernels take it
  f16,   // as tf32; also to f16, 10-bit mantissa and at most 65504: a model's matrices and blocks, likewise, but not
         // in a pass that is recorded for its gradients, of which small ones would be lost
};

// Make one and keep it. No thread starts before the first call that needs it; between calls the team sleeps.
// Results have the same bits for any number of threads. Calls on one context run one after another; to run calls
// concurrently, give each calling thread a context of its own. A context survives fork: the child starts its own team
// when it needs one. Calls on a context that was moved from throw Error (value).
class Context {
 public:
  explicit Context(int threads = 0);  // on the CPU; 0: one per processor that this process may use
  // Throws Error (device) that says why if this build or this machine has no such device.
  explicit Context(Device device);
  // On a GPU, with all work in the caller's stream (a cudaStream_t, null for the default one), which must outlive the
  // context and every tensor from it.
  Context(Device device, void* stream);
  explicit Context(std::unique_ptr<Executor> executor);  // for the library's own rooms
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  Device device() const noexcept;
  int threads() const noexcept;

  // The memory of the device. Results are allocated here; memory that is released is kept for the next call.
  const std::shared_ptr<Allocator>& allocator() const noexcept;
  // Returns memory that no tensor uses to the system.
  void release_memory();
  // Waits until all calls are done. On the CPU they are done when they return; on another device, errors in the values
  // of tensors (lengths, indices) may be thrown here or by the next copy to the host.
  void synchronise();

  void set_precision(Precision precision);
  Precision precision() const noexcept;

  Executor& executor();  // for the library's own rooms
  const Executor& executor() const;

 private:
  std::unique_ptr<Executor> executor_;
};

// to <- from: equal shapes, any strides; each on the host or on the context's device. The types are equal, or one is
// f32 and the other f16 or bf16; then numbers are rounded to nearest even.
void copy(Context& context, const ConstTensorView& from, const TensorView& to);
// A row-major copy on the context's device, or on the host.
Tensor clone(Context& context, const ConstTensorView& from);
Tensor to_host(Context& context, const ConstTensorView& from);

}  // namespace polyhead
