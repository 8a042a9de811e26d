// Where a device becomes an executor with its kernels: the only place that names the backends.
#include "ops/executors.h"

#include "kernels/executors.h"
#include "polyhead/context.h"
#include "polyhead/info.h"
#include "polyhead/version.h"

namespace polyhead {
namespace {

std::unique_ptr<Executor> executor_of(const Device& device, std::optional<void*> stream = {}, int threads = 0) {
  if (device.kind == Device::Kind::cuda) return cuda::make_executor(device.index, stream);
  if (stream) throw Error(ErrorCode::device, "context", "expected a GPU for the stream, found " + to_string(device));
  if (device.index == 0) return cpu::make_executor(threads);
  throw Error(ErrorCode::device, "context", "expected cpu 0, the only one, found " + std::to_string(device.index));
}

}  // namespace

Context::Context(int threads) : Context(cpu::make_executor(threads)) {}
Context::Context(Device device) : Context(executor_of(device)) {}
Context::Context(Device device, void* stream) : Context(executor_of(device, stream)) {}

Context ops::context_of_one_thread(Device device) { return Context(executor_of(device, {}, 1)); }

Info info() { return {version(), cpu::target_name(), cpu::target_names(), cuda::available(), cuda::reason()}; }

}  // namespace polyhead
