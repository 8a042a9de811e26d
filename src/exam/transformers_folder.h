// A folder that Hugging Face's libraries saved, or a GGUF file of Llama, written without some of its heads so that they
// load it too.
//
// Their config has one number of heads for all layers. So only whole groups leave, a key/value head with all the heads
// that read it, and every layer keeps as many groups as the layer that needs most. Other heads that are gone stay as
// zeros, which add nothing to the result.
#pragma once

#include <filesystem>
#include <vector>

#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::exam {

// Throws Error (input) if no head can leave: from another GGUF file, a folder that polyhead saved, or a family whose
// head dim is width / heads by definition (GPT-2, GPT-NeoX, BERT).
void expect_for_transformers(const std::filesystem::path& model);

// `whole` is the model in `from`, `gone` the heads that leave. Tensors of a folder keep their stored type, and
// config.json and the tokenizer's files are copied; from a GGUF file all of these are made. `folder` must exist.
// Returns what could not be written, in words, or nothing.
std::string save_for_transformers(const std::filesystem::path& from, const model::Transformer& whole,
                                  const std::vector<HeadId>& gone, const std::filesystem::path& folder);

}  // namespace polyhead::exam
