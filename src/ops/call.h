// A call of the library on its context's device.
#pragma once

#include "kernels/table.h"
#include "polyhead/context.h"

namespace polyhead::ops {

using kernels::Table;

// What the context's device can do, see Table.
inline bool mixes_types(const Context& context) { return context.executor().kernels().mixes_types; }
inline bool widens_weights(const Context& context) { return context.executor().kernels().widens_weights; }
inline bool takes_processors(const Context& context) { return context.executor().kernels().takes_processors; }

// For an op of several kernels: holds the executor, so that no other call comes between, and keeps its workers awake.
class Call {
 public:
  explicit Call(Context& context) : executor_(context.executor()), turn_(executor_.turn()), burst_(executor_) {}

  // call(&Table::gemm, problem).
  template <class Result, class... Parameters>
  Result operator()(Result (*Table::*kernel)(Executor&, Parameters...),
                    std::type_identity_t<Parameters>... arguments) const {
    return (executor_.kernels().*kernel)(executor_, arguments...);
  }

  Executor& executor() const noexcept { return executor_; }
  // A tensor in memory that the executor keeps from call to call, see Executor::scratch.
  TensorView scratch(ScratchSlot slot, const Dims& shape, DType dtype) const {
    return executor_.scratch(slot, shape, dtype);
  }

 private:
  Executor& executor_;
  const std::lock_guard<Executor::Turn> turn_;
  const Executor::Burst burst_;
};

// One kernel: run(context, &Table::rotate, problem).
template <class Result, class... Parameters>
Result run(Context& context, Result (*Table::*kernel)(Executor&, Parameters...),
           std::type_identity_t<Parameters>... arguments) {
  Executor& executor = context.executor();
  const std::lock_guard turn(executor.turn());
  return (executor.kernels().*kernel)(executor, arguments...);
}

}  // namespace polyhead::ops
