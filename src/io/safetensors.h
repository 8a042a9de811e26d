// safetensors: named tensors in a file. 8 bytes with the length of the header; the header, JSON that gives each tensor
// its type, shape and place; then the bytes of the tensors, without holes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "polyhead/tensor.h"

namespace polyhead::io {

using Metadata = std::map<std::string, std::string>;

struct NamedTensor {
  std::string name;
  ConstTensorView tensor;  // on the host, with any strides
};

// Atomic: the file is replaced as a whole or left alone. The header keeps the order given. A checksum of the whole file
// is added to the metadata, where it bothers no other reader.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata = {});

// The bytes of the file that this would make.
std::uint64_t safetensors_bytes(const std::vector<NamedTensor>& tensors, const Metadata& metadata = {});

struct Safetensors {
  std::string where;                                    // the file, for messages
  std::vector<std::pair<std::string, Tensor>> tensors;  // in the order of the header
  Metadata metadata;
  bool checked = false;  // it carries a checksum, which is right

  bool has(std::string_view name) const;  // is there and not taken yet
  Tensor take(std::string_view name);     // moves it out; a missing one is an error (input)
};

// Everything is checked before anything is allocated, and a file that breaks the format in any way is an error (input).
// F64, F32, F16, BF16, I32 and BOOL are read as they are, bit by bit; whole numbers of other widths become i32 and must
// fit. Other types are refused, and so is a file that is not what its checksum says.
Safetensors read_safetensors(const std::filesystem::path& path);

}  // namespace polyhead::io
