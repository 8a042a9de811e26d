// The element types of GGUF. Most are blocks: a few scales and the small integers that they multiply.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "polyhead/tensor.h"

namespace polyhead::io {

struct BlockFormat {
  std::uint32_t id;  // in the file
  std::string_view name;
  std::int64_t elements, bytes;  // of a block
  DType dtype;                   // of the tensor that it becomes
  // One block to f32, rounding as the gguf package does; null where the bytes are copied as they are.
  void (*widen)(const std::uint8_t* block, float* to) = nullptr;
};

std::span<const BlockFormat> block_formats();

}  // namespace polyhead::io
