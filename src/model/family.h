// Models that others saved. A family is a table: how its config is read, and which of its tensors make up each of our
// parameters. families.h lists them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/weights.h"
#include "model/checkpoint.h"
#include "model/transformer.h"

namespace polyhead::model {

// A stored tensor that gives rows of a parameter. "{}" in its name stands for the layer.
struct Source {
  std::string name;
  bool transposed = false;   // stored [inputs, outputs]
  bool interleaved = false;  // rotary positions pair neighbours: rows 2c and 2c + 1 of each head
  bool by_head = false;      // rows [H, q k v, D]: q, k and v of one head, then those of the next
  std::int64_t skip = 0;     // rows at the beginning that are left out
  std::string plus = {};     // a tensor whose first row is added to every row
  bool plus_one = false;     // 1 is added to every number
};

struct Family {
  std::string name;    // "model_type" of config.json, or "general.architecture" of GGUF
  std::string prefix;  // of tensor names; some files leave it out
  // The config that the file describes; `tensors` are the names in it. Settings that our block does not have are
  // refused.
  Config (*read_config)(const io::Json& json, const std::string& where, const std::set<std::string>& tensors);
  // By our name: the rows of all sources in order. No sources means 0: a bias that the family does not have.
  std::map<std::string, std::vector<Source>> parameters;
  std::vector<std::string> ignored;                 // endings of tensors that are not weights
  std::map<std::string, std::string> renamed = {};  // beginnings of names in some files, and their usual form
  std::vector<std::string> beyond = {};             // beginnings of tensors on top of an encoder, which are left out
  std::string rotary_factors = {};                  // the tensor of Config::rotary_factors, which some files have
  // Removes from the table what a file does not have: biases, or BERT's segments.
  void (*settle)(const io::Json& json, const std::string& where, const std::set<std::string>& tensors,
                 Family& family) = nullptr;
};

// Makes the biases of "attention" or "feed_forward" 0 in a family's table.
void drop_biases(Family& family, const std::string& of);

// From a folder as Hugging Face's libraries save it, or a GGUF file, a tensor at a time; checkpoint.h's Placement says
// which types the weights get. Refuses (input) an unknown family, unsupported settings,
// and tensors that do not fit the config.
std::unique_ptr<Transformer> load_foreign(const std::filesystem::path& model, const Placement& placement);

// Refuses what load_foreign refuses, as far as the files tell without reading weights.
void check_foreign(const io::ListedWeights& weights);

// The config that the files describe; refuses (input) a family or settings that polyhead does not have.
Config foreign_config(const io::ListedWeights& weights);

// About how many bytes the weights take once loaded.
double loaded_bytes(const io::ListedWeights& weights, const AsStored& kept);

// Whether polyhead saved this folder, judging by its config.json.
bool is_own(const std::filesystem::path& model);

}  // namespace polyhead::model
