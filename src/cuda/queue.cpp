#include "cuda/queue.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cuda/error.h"
#include "kernels/executors.h"

namespace polyhead::cuda {
namespace {

constexpr int kLeastCapability = 80;

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}
int capability_of(int device) {
  return 10 * attribute(device, cudaDevAttrComputeCapabilityMajor) +
         attribute(device, cudaDevAttrComputeCapabilityMinor);
}

// Why a device cannot be used, or nothing.
std::string why_unusable(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return "no usable GPU: " + describe(status, "cudaGetDeviceCount");
  }
  if (device < 0 || device >= count) {
    return "expected one of " + std::to_string(count) + " GPUs, found cuda:" + std::to_string(device);
  }
  const int capability = capability_of(device);
  if (capability >= kLeastCapability) return {};
  return "expected a GPU of compute capability 8.0 or later, found " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

// Whether POLYHEAD_CUDA_KERNELS asks for the kernels that every GPU runs.
bool wants_portable_only() {
  const char* name = std::getenv("POLYHEAD_CUDA_KERNELS");
  if (name == nullptr || *name == 0) return false;
  if (std::string_view(name) == "portable") return true;
  throw Error(ErrorCode::value, "context",
              "no kernels '" + std::string(name) + "'; POLYHEAD_CUDA_KERNELS may be portable, or not set");
}

}  // namespace

std::string reason() { return why_unusable(0); }
bool available() noexcept {
  try {
    return reason().empty();
  } catch (...) {
    return false;
  }
}

Queue::Queue(int device, std::optional<void*> stream)
    : device_(device), owns_stream_(!stream), stream_(static_cast<cudaStream_t>(stream.value_or(nullptr))) {
  if (const std::string why = why_unusable(device); !why.empty()) throw Error(ErrorCode::device, "context", why);
  const Entered entered = enter();
  processors_ = attribute(device, cudaDevAttrMultiProcessorCount);
  capability_ = capability_of(device);
  portable_only_ = wants_portable_only();
  shared_bytes_ = static_cast<std::size_t>(attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (owns_stream_) check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaMalloc(reinterpret_cast<void**>(&claimed_), sizeof *claimed_), "cudaMalloc");
  check(cudaMemsetAsync(claimed_, 0, sizeof *claimed_, stream_), "cudaMemsetAsync");
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof *violation_, cudaHostAllocMapped), "cudaHostAlloc");
  violation_ = new (memory) Violation;
}

std::string_view Queue::why_not_hopper() const {
  if (capability_ != 90) return "the GPU is not a Hopper (sm_90)";
  return portable_only_ ? "POLYHEAD_CUDA_KERNELS is portable" : "";
}

Queue::~Queue() {
  const Entered entered = enter();
  cudaStreamSynchronize(stream_);
  cudaFreeHost(violation_);
  cudaFree(claimed_);
  if (owns_stream_) cudaStreamDestroy(stream_);
}

void Queue::synchronise() {
  const Entered entered = enter();
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  if (violation_->bad.kind == kernels::BadValue::Kind::none) return;
  const Violation found = *violation_;
  *violation_ = {};
  check(cudaMemsetAsync(claimed_, 0, sizeof *claimed_, stream_), "cudaMemsetAsync");
  const std::lock_guard lock(ops_mutex_);
  throw kernels::error_of(ops_[static_cast<std::size_t>(found.op)], found.bad);
}

Violations Queue::violations(std::string_view op) {
  const std::lock_guard lock(ops_mutex_);
  auto known = std::find(ops_.begin(), ops_.end(), op);
  if (known == ops_.end()) known = ops_.insert(ops_.end(), std::string(op));
  return {claimed_, violation_, static_cast<int>(known - ops_.begin())};
}

}  // namespace polyhead::cuda
