// Models that others saved. A family is a table: how its config reads, and which of its tensors make which of our
// parameters. A new one is a file beside gpt2.cpp and an entry in family.cpp.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/weights.h"
#include "model/transformer.h"

namespace polyhead::model {

// A stored tensor that gives rows of a parameter. "{}" in its name stands for the layer.
struct Source {
  std::string name;
  bool transposed = false;   // stored [inputs, outputs]
  bool interleaved = false;  // the columns that rotary positions pair lie side by side: 2c and 2c + 1 of each head
  bool by_head = false;      // rows of q, k and v of one head after the other
  std::int64_t skip = 0;     // rows at the beginning that are left out
  std::string plus = {};     // a tensor whose first row is added to every row
  bool plus_one = false;     // 1 is added to every number
};

struct Family {
  std::string name;    // "model_type" of config.json, or "general.architecture" of GGUF
  std::string prefix;  // of names, which some files leave out
  // What the file says; `tensors` are the names in it. Settings that our block does not have are refused.
  Config (*read_config)(const io::Json& json, const std::string& where, const std::set<std::string>& tensors);
  // By our name: rows of the sources one after another; without any, 0: a bias that the family does not have.
  std::map<std::string, std::vector<Source>> parameters;
  std::vector<std::string> ignored;                 // endings of tensors that are no weights
  std::map<std::string, std::string> renamed = {};  // beginnings of names that some files have, and what they are
  std::vector<std::string> beyond = {};             // beginnings of tensors that come after an encoder
  std::string rotary_factors = {};                  // the tensor of Config::rotary_factors, which some files have
  // Takes out of the table what a config has not: biases that are 0.
  void (*settle)(const io::Json& json, const std::string& where, const std::set<std::string>& tensors,
                 Family& family) = nullptr;
};

// In a family's table: the biases of the attention or of the feed-forward network are 0.
void drop_biases(Family& family, const std::string& of);

Family gpt2_family();
Family gpt2_gguf_family();
Family llama_family();
Family llama_gguf_family();
Family gpt_neox_family();
Family gpt_neox_gguf_family();
Family bert_family();
Family bert_gguf_family();
Family roberta_family();
Family distilbert_family();
Family mistral_family();
Family qwen2_family();
Family qwen2_gguf_family();
Family qwen3_family();
Family qwen3_gguf_family();
Family gemma2_family();
Family gemma2_gguf_family();
Family gemma3_family();
Family gemma3_gguf_family();

// From a folder as Hugging Face's libraries save one, or a GGUF file. Matrices of 16 bits stay as they
// are stored where the memory is the host's, all other weights become f32, a tensor at a time. Refuses
// (input) a family that is not known, settings that are not supported, and tensors that do not fit the config.
std::unique_ptr<Transformer> load_foreign(const std::filesystem::path& model, const std::shared_ptr<Allocator>& memory);

// Refuses what load_foreign would, as far as that is known without reading a weight.
void check_foreign(const io::ListedWeights& weights);

// What they take in memory once they are loaded, nearly: on the host, which keeps matrices of 16 bits, or not.
double loaded_bytes(const io::ListedWeights& weights, bool keeps_halves);

// Whether it is a folder of polyhead's own making, by its config.json.
bool is_own(const std::filesystem::path& model);

}  // namespace polyhead::model
