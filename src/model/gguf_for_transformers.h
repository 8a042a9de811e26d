// A GGUF file of Llama as Hugging Face's libraries would have saved it: its config, its tensors, its tokenizer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "io/weights.h"
#include "model/transformer.h"
#include "text/tokenizer.h"

namespace polyhead::model {

// Throws Error (input) for another architecture, and for settings that a config.json of Llama cannot express.
void expect_llama(const io::ListedWeights& gguf);

// The whole config.json. `metadata` is that of the file that the model comes from.
io::Json llama_config_json(const Config& config, const io::Json& metadata);

// Tensors on the host under Hugging Face's names, in the types that the model keeps them in.
std::vector<std::pair<std::string, Tensor>> llama_tensors(const Transformer& model);

// The tokenizer's files by name. If it cannot be expressed in them, `missing` says why and there are no files.
struct TokenizerFiles {
  std::vector<std::pair<std::string, std::string>> files;
  std::string missing;
};
TokenizerFiles tokenizer_files(const io::Json& metadata, const std::string& where);

}  // namespace polyhead::model
