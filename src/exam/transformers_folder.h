// A folder that Hugging Face's libraries saved, or a GGUF file of Llama, written without some of its heads so that they
// load it too.
//
// Their config has one number of heads for all layers. So what leaves is whole: a key/value head with all the heads
// that read it, as many from every layer as the layer that keeps most can do without. Heads that are gone beyond that
// stay as zeros, which add nothing to the result.
#pragma once

#include <filesystem>
#include <vector>

#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::exam {

// Throws Error (input) if no head can leave: another GGUF file, a folder of polyhead's own, or a family whose head dim
// is width / heads by definition (GPT-2, GPT-NeoX, BERT).
void expect_for_transformers(const std::filesystem::path& model);

// `whole` is the model in `from`, `gone` its heads that leave. All tensors of a folder stay in the type that they are
// stored in, config.json and the files of the tokenizer come along; of a GGUF file all of that is made. The folder is
// there. Returns what is missing of it, in words; empty if nothing is.
std::string save_for_transformers(const std::filesystem::path& from, const model::Transformer& whole,
                                  const std::vector<HeadId>& gone, const std::filesystem::path& folder);

}  // namespace polyhead::exam
