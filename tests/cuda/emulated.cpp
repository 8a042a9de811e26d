#include "cuda/emulated.h"

#include "cuda/executor.h"
#include "cuda/kernels.h"

namespace polyhead::test::gpu {

Context emulated_context() { return Context(std::make_unique<cuda::CudaExecutor>(cuda::kernels())); }

}  // namespace polyhead::test::gpu
