// A folder that Hugging Face's libraries saved, or a GGUF file of Llama, written without some of its heads so that they
// load it too.
//
// Their config has one number of heads for all layers. So only whole groups leave, a key/value head with all the heads
// that read it, and every layer keeps as many groups as the layer that needs most. Other heads that are gone stay as
// zeros, which add nothing to the result.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::model {

// Throws Error (input) if no head can leave: from another GGUF file, a folder that polyhead saved, or a family whose
// head dim is width / heads by definition (GPT-2, GPT-NeoX, BERT).
void expect_for_transformers(const std::filesystem::path& model);

// What such a folder holds.
struct TransformersFolder {
  io::Json config;
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::vector<std::pair<std::string, std::string>> companions;  // by name: the tokenizer's files and the like
  std::string missing = {};                                     // of the companions, in words; or nothing
};

// `whole` is the model in `from`, `gone` the heads that leave. Tensors of a folder keep their stored type, and
// config.json and the tokenizer's files are copied; from a GGUF file all of these are made.
TransformersFolder for_transformers(const std::filesystem::path& from, const Transformer& whole,
                                    const std::vector<HeadId>& gone);

// `folder` must exist. Files of other names stay, except a GGUF file's tokenizer.
void save(const TransformersFolder& made, const std::filesystem::path& folder);

}  // namespace polyhead::model
