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
// goes into the metadata; other readers ignore it.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata = {});

// The size in bytes of the file that write_safetensors would make.
std::uint64_t safetensors_bytes(const std::vector<NamedTensor>& tensors, const Metadata& metadata = {});

struct Safetensors : LoadedTensors {
  Metadata metadata;
  bool checked = false;  // the file carries a checksum, and it matches
};

// The header is checked in full before any tensor is allocated; a file that breaks the format in any way is an error
// (input). F64, F32, F16, BF16, I32 and BOOL are read bit for bit; whole numbers of other widths become i32 and must
// fit. Other types are refused, and so is a file that does not match its checksum.
Safetensors read_safetensors(const std::filesystem::path& path);

// The tensors that the header lists, in its order. The header is checked in full, the tensors' own bytes are not.
std::vector<StoredTensor> list_safetensors(const std::filesystem::path& path);

// Reads one of the tensors listed.
Tensor read_safetensors_tensor(const Reader& file, const StoredTensor& stored, const std::string& where);

}  // namespace polyhead::io
