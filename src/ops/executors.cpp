// Where a device becomes an executor with its kernels: the only place that names the backends.
#include "backend/executors.h"

#include "polyhead/context.h"
#include "polyhead/info.h"
#include "polyhead/version.h"

namespace polyhead {
namespace {

std::unique_ptr<Executor> executor_of(const Device& device) {
  if (device.kind == Device::Kind::cuda) return cuda::make_executor(device.index);
  if (device.index == 0) return cpu::make_executor(0);
  throw Error(ErrorCode::device, "context", "expected cpu 0, the only one, found " + std::to_string(device.index));
}

}  // namespace

Context::Context(int threads) : Context(cpu::make_executor(threads)) {}
Context::Context(Device device) : Context(executor_of(device)) {}

Info info() { return {version(), cpu::target_name(), cpu::target_names(), cuda::available(), cuda::reason()}; }

}  // namespace polyhead
