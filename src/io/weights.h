// A model's weights, wherever they lie: in a safetensors file, in shards that an index lists, in a GGUF file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"

namespace polyhead::io {

// The files of an index (model.safetensors.index.json), in the order of their first mention. A shard lies beside its
// index: a name with a folder in it is refused.
std::vector<std::filesystem::path> list_shards(const std::filesystem::path& index);

// All shards as one. A tensor in two of them, one that the index misses, and one that it names in vain are errors.
// `checked` is set if every shard carries a checksum.
Safetensors read_sharded_safetensors(const std::filesystem::path& index);

// The file to read of what somebody calls a model: itself, or in a folder model.safetensors, its index, or the only
// .gguf. A pickle (.bin, .pt, .pth, .ckpt) is refused with a hint: reading one runs the code in it.
std::filesystem::path find_weights(const std::filesystem::path& model);

// Weights that were looked at and not read.
struct ListedWeights {
  std::filesystem::path where;  // what find_weights found
  std::string format;           // "safetensors", "safetensors in 3 shards", "GGUF version 3"
  Json metadata;                // of a GGUF file, else null
  struct Listed {
    std::filesystem::path file;
    StoredTensor tensor;
  };
  std::vector<Listed> tensors;
};
ListedWeights list_weights(const std::filesystem::path& model);

// One of them, as the reader of its file makes it.
Tensor read_weight(const ListedWeights::Listed& listed);

}  // namespace polyhead::io
