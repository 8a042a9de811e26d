// The GPU's symbols in a build without CUDA.
#include "core/executor.h"

#include "kernels/executors.h"
#include "polyhead/error.h"

namespace polyhead::cuda {

bool available() noexcept { return false; }
std::string reason() { return "no GPU support in this build: CMake found no nvcc"; }
std::unique_ptr<Executor> make_executor(int, std::optional<void*>) {
  throw Error(ErrorCode::device, "context", reason());
}

}  // namespace polyhead::cuda
