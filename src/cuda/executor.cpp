#include "cuda/executor.h"

#include "cuda/cublas_lt.h"
#include "cuda/kernels.h"
#include "kernels/executors.h"

namespace polyhead::cuda {

std::unique_ptr<Executor> make_executor(int index, std::optional<void*> stream) {
  return std::make_unique<CudaExecutor>(index, stream);
}

CudaExecutor::CudaExecutor(int device, std::optional<void*> stream)
    : Executor(cuda::kernels(), std::make_shared<CudaAllocator>(device, stream)),
      memory_(static_cast<CudaAllocator&>(*allocator())),
      queue_(memory_.queue()) {}

CudaExecutor::~CudaExecutor() {
  for (const Block& block : blocks_) memory_.release(block.data, block.bytes);
}

CublasLt* CudaExecutor::cublas() {
  if (!cublas_sought_) {
    cublas_sought_ = true;
    cublas_ = CublasLt::load();
  }
  return cublas_.get();
}

std::byte* CudaExecutor::scratch_bytes(std::size_t slot, std::size_t bytes) {
  Block& block = blocks_[slot];
  if (block.bytes < bytes) {
    memory_.release(block.data, block.bytes);
    ++moves_;
    block = {};
    block = {memory_.allocate(bytes), bytes};
  }
  return static_cast<std::byte*>(block.data);
}

int* CudaExecutor::counters(std::int64_t count) {
  int* const all = workspace<int>(Workspace::counters, count);
  if (count > counters_) {  // the memory is new
    memory_.zero(all, static_cast<std::size_t>(count) * sizeof(int));
    counters_ = count;
  }
  return all;
}

bool CudaExecutor::waits_for_earlier(const void* kernel) {
  const auto [known, fresh] = waits_for_earlier_.try_emplace(kernel, false);
  if (fresh) {
    cudaFuncAttributes attributes;
    known->second = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
  }
  return known->second;
}

void CudaExecutor::launch_pointers(Begin begin, const void* kernel, std::int64_t blocks, int threads,
                                   std::size_t shared_bytes, void** parameters) {
  if (blocks == 0) return;
  const auto name = [&] {
    const char* text = nullptr;
    return std::string(cudaFuncGetName(&text, kernel) == cudaSuccess && text != nullptr ? text : "a kernel");
  };
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    throw Error(
        ErrorCode::unsupported, "cuda",
        name() + ": expected at most 2147483647 blocks of work, found " + std::to_string(blocks) + "; split the batch");
  }
  if (shared_bytes > 40 * 1024) {  // with the kernel's static memory it may be more than the usual 48 KiB
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute of " + name());
  }
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream();
  config.attrs = &early;
  config.numAttrs = begin == Begin::early && waits_for_earlier(kernel) ? 1 : 0;
  const cudaError_t status = cudaLaunchKernelExC(&config, kernel, parameters);
  if (status != cudaSuccess) check(status, "launch of " + name());
}

}  // namespace polyhead::cuda
