// GGUF, the files of llama.cpp: metadata (including the config and the tokenizer), then tensors, most of them quantised
// in blocks. Versions 2 and 3, little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/json.h"
#include "io/loaded_tensors.h"

namespace polyhead::io {

struct GgufHeader {
  std::string where;  // the file, for messages
  std::uint32_t version = 0;
  // All keys in the order of the file, as one object, so that fields are read like those of config.json.
  Json metadata = Json::object();
  std::uint64_t metadata_end = 0;     // the first byte after the metadata
  std::vector<StoredTensor> tensors;  // shapes in row-major order, the reverse of the file's
};

struct Gguf : LoadedTensors {
  Json metadata;
};

// Every count, length and offset is checked against the size of the file before anything is allocated for it. A file
// that breaks the format in any way is an error (input).
GgufHeader read_gguf_header(const std::filesystem::path& path);

// The bytes of a GGUF file with the same metadata and no tensors: all that a tokenizer needs.
std::string gguf_metadata_alone(const std::filesystem::path& path);

// F32, F16 and BF16 are read as they are; blocks of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K become f32, a
// piece of the file at a time. Other types are refused.
Gguf read_gguf(const std::filesystem::path& path);

// Reads one of the tensors that the header lists.
Tensor read_gguf_tensor(const Reader& file, const StoredTensor& stored);
// The same of a matrix of blocks, which are handed over as they are, a row at a time.
void read_gguf_rows(const Reader& file, const StoredTensor& stored,
                    const std::function<void(std::int64_t row, std::span<const std::uint8_t> blocks)>& take);

}  // namespace polyhead::io
