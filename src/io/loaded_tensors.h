// Tensors by name: what a file's header says about them, and the tensors themselves once they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blocks.h"
#include "polyhead/tensor.h"

namespace polyhead::io {

// A tensor in a file, not read yet.
struct StoredTensor {
  std::string name;
  std::string format;  // the file's own word for its type: "BF16", "Q4_K"
  DType dtype;         // what it is read as
  Dims shape;
  std::uint64_t offset, bytes;           // in the file
  std::optional<BlockType> blocks = {};  // if it is stored in blocks, which are read as f32 unless they are kept
};

// Tensors that were read, in the order of the header. Each is moved out once, to where it stays.
struct LoadedTensors {
  std::string where;  // the file, for messages
  std::vector<std::pair<std::string, Tensor>> tensors;

  bool has(std::string_view name) const;  // is there and not taken yet
  Tensor take(std::string_view name);     // moves it out; a missing one is an error (input)
};

}  // namespace polyhead::io
