// A model's weights, wherever they lie: in a safetensors file, in shards that an index lists, in a GGUF file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"

namespace polyhead::io {

// The file to read of what somebody calls a model: itself, or in a folder model.safetensors, its index, or the only
// .gguf. A pickle (.bin, .pt, .pth, .ckpt) is refused with a hint: reading one runs the code in it.
std::filesystem::path find_weights(const std::filesystem::path& model);

// What somebody calls a model, or the only .gguf in it if it is a folder without safetensors of its own.
std::filesystem::path model_of(const std::filesystem::path& model);

// Whether a folder holds weights that polyhead does not write: GGUF files or pickles.
bool holds_other_formats(const std::filesystem::path& folder);

// Weights that were looked at and not read. Every tensor has one place: with shards, all that the index
// (model.safetensors.index.json) lists, each in the shard that it names, which lies beside the index.
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
