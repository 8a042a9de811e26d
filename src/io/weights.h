// A model's weights, wherever they lie: in a safetensors file, in shards that an index lists, in a GGUF file.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"

namespace polyhead::io {

// The file to read for `model`: the path itself, or if it is a folder, the model.safetensors, the index or the only
// .gguf in it. A pickle (.bin, .pt, .pth, .ckpt) is refused with a hint: reading one runs the code in it.
std::filesystem::path find_weights(const std::filesystem::path& model);

// `model` itself, or the only .gguf in it if it is a folder without safetensors.
std::filesystem::path model_of(const std::filesystem::path& model);

// Whether a folder holds weights that polyhead does not write: GGUF files or pickles.
bool holds_other_formats(const std::filesystem::path& folder);

// Weights that are listed but not read. With shards these are the tensors that the index (model.safetensors.index.json)
// lists, each in the one shard that the index names for it; the shards lie beside the index.
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

// Reads one listed tensor; blocks become f32.
Tensor read_weight(const ListedWeights::Listed& listed);
// Reads a matrix of blocks and hands them over as they are, a row at a time.
void read_block_rows(const ListedWeights::Listed& listed,
                     const std::function<void(std::int64_t row, std::span<const std::uint8_t> blocks)>& take);

}  // namespace polyhead::io
