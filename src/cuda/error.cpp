#include "cuda/error.h"

#include <new>

namespace polyhead::cuda {

std::string describe(cudaError_t status, std::string_view call) {
  return std::string(call) + ": " + cudaGetErrorString(status) + " (" + std::to_string(static_cast<int>(status)) + ")";
}

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // the next call starts afresh
  if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw Error(ErrorCode::device, "cuda",
              describe(status, call) + (status == cudaErrorStreamCaptureUnsupported
                                            ? "; make the same call once in this stream before it is captured"
                                            : ""));
}

}  // namespace polyhead::cuda
