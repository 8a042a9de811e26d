// safetensors: named tensors in a file. 8 bytes with the length of the header; the header, JSON that gives each tensor
// its type, shape and place; then the bytes of the tensors, without holes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/loaded_tensors.h"

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

struct Safetensors : LoadedTensors {
  Metadata metadata;
  bool checked = false;  // it carries a checksum, which is right
};

// Everything is checked before anything is allocated, and a file that breaks the format in any way is an error (input).
// F64, F32, F16, BF16, I32 and BOOL are read as they are, bit by bit; whole numbers of other widths become i32 and must
// fit. Other types are refused, and so is a file that is not what its checksum says.
Safetensors read_safetensors(const std::filesystem::path& path);

// What the header says, in its order; checked like the whole file, but for the tensors' own bytes.
std::vector<StoredTensor> list_safetensors(const std::filesystem::path& path);

// One tensor of those listed.
Tensor read_safetensors_tensor(const Reader& file, const StoredTensor& stored, const std::string& where);

}  // namespace polyhead::io
