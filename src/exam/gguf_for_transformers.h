// A GGUF file of Llama as Hugging Face's libraries would have saved it: its config, its tensors, its tokenizer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "io/weights.h"
#include "model/transformer.h"
#include "text/tokenizer.h"

namespace polyhead::exam {

// Throws Error (input) for another architecture, and for settings that a config.json of Llama has no words for.
void expect_llama(const io::ListedWeights& gguf);

// The whole config.json. `metadata` is that of the file that the model comes from.
io::Json llama_config(const model::Config& config, const io::Json& metadata);

// By their names there, on the host; numbers have the type that the model keeps them in.
std::vector<std::pair<std::string, Tensor>> llama_tensors(const model::Transformer& model);

// The files of the tokenizer by name. One that there are no words for leaves a reason instead of files.
struct TokenizerFiles {
  std::vector<std::pair<std::string, std::string>> files;
  std::string missing;
};
TokenizerFiles tokenizer_files(const io::Json& metadata, const std::string& where);

}  // namespace polyhead::exam
