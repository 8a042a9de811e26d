// Addresses as PTX takes them.
#pragma once

#include <cstdint>

namespace polyhead::cuda::device {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace polyhead::cuda::device
