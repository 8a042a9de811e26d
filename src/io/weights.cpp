#include "io/weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "io/file.h"
#include "io/gguf.h"

namespace polyhead::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostIndex = 100'000'000;
constexpr const char *kWeights = "model.safetensors", *kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse(const std::string& where, const std::string& message) {
  throw Error(ErrorCode::input, "weights", where + ": " + message);
}

// Tensor and shard, in the order of the index.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

WeightMap read_weight_map(const fs::path& index) {
  const std::string where = index.string();
  const Json json = parse_json(read_file(index, kMostIndex), where);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    refuse(where, "expected an object with \"weight_map\", which gives each tensor its file");
  }
  WeightMap map;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    const std::string at = where + ": tensor " + in_quotes(tensor);
    if (!shard.is_string()) refuse(at, "expected the name of a file");
    const auto name = shard.get<std::string>();
    if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != name.npos) {
      refuse(at, "expected a file beside the index, found " + in_quotes(name));
    }
    map.emplace_back(tensor, name);
  }
  return map;
}

std::vector<std::string> shards_of(const WeightMap& map) {
  std::vector<std::string> shards;
  std::set<std::string> seen;
  for (const auto& [tensor, shard] : map) {
    if (seen.insert(shard).second) shards.push_back(shard);
  }
  return shards;
}

bool is_pickle(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".bin" || ending == ".pt" || ending == ".pth" || ending == ".ckpt";
}

// Whether it is a model's GGUF file; tokenizer.gguf, where polyhead prune keeps the tokenizer, is not.
bool is_gguf(const fs::path& path) { return path.extension() == ".gguf" && path.filename() != "tokenizer.gguf"; }

std::vector<fs::path> files_in(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (wanted(entries->path())) found.push_back(entries->path());
  }
  if (error) throw Error(ErrorCode::io, "weights", folder.string() + ": cannot look into it: " + error.message());
  return found;
}

[[noreturn]] void refuse_pickle(const fs::path& path) {
  refuse(path.string(),
         "a pickle, and reading one runs the code in it; if you trust it, convert it: "
         "transformers' model.save_pretrained(folder) writes safetensors");
}

fs::path find_in_folder(const fs::path& folder) {
  for (const char* name : {kWeights, kIndex}) {
    if (is_there(folder / name)) return folder / name;
  }
  const std::vector<fs::path> ggufs = files_in(folder, is_gguf), pickles = files_in(folder, is_pickle);
  if (ggufs.size() == 1) return ggufs[0];
  if (ggufs.size() > 1) refuse(folder.string(), std::to_string(ggufs.size()) + " .gguf files; name one of them");
  if (!pickles.empty()) refuse_pickle(*std::min_element(pickles.begin(), pickles.end()));
  refuse(folder.string(), std::string("expected ") + kWeights + ", " + kIndex + " or a .gguf file, found none of them");
}

// The tensors of all shards, each in the shard that the index names for it. A tensor in two shards, one missing from
// the index, and one that the index lists but no shard holds are errors.
std::vector<ListedWeights::Listed> list_shards(const fs::path& index, const std::vector<std::string>& shards,
                                               const WeightMap& map) {
  std::map<std::string, std::string> shard_of(map.begin(), map.end());
  std::vector<ListedWeights::Listed> all;
  for (const std::string& shard : shards) {
    const fs::path file = index.parent_path() / shard;
    for (StoredTensor& tensor : list_safetensors(file)) {
      const auto promised = shard_of.find(tensor.name);
      const std::string at = file.string() + ": tensor " + in_quotes(tensor.name);
      if (promised == shard_of.end()) refuse(at, "is not in the index, or in two shards");
      if (promised->second != shard) refuse(at, "the index says it is in " + in_quotes(promised->second));
      shard_of.erase(promised);
      all.push_back({file, std::move(tensor)});
    }
  }
  if (shard_of.empty()) return all;
  const auto& [name, shard] = *shard_of.begin();
  refuse(index.string(), "tensor " + in_quotes(name) + ": expected in " + in_quotes(shard) + ", found nowhere");
}

}  // namespace

fs::path find_weights(const fs::path& model) {
  if (is_folder(model)) return find_in_folder(model);
  if (is_pickle(model)) refuse_pickle(model);
  return model;
}

fs::path model_of(const fs::path& model) {
  if (!is_folder(model)) return model;
  for (const char* name : {kWeights, kIndex}) {
    if (is_there(model / name)) return model;
  }
  const std::vector<fs::path> ggufs = files_in(model, is_gguf);
  return ggufs.size() == 1 ? ggufs[0] : model;
}

bool holds_other_formats(const fs::path& folder) {
  return !files_in(folder, [](const fs::path& path) { return is_gguf(path) || is_pickle(path); }).empty();
}

ListedWeights list_weights(const fs::path& model) {
  ListedWeights result{.where = find_weights(model), .format = "safetensors", .metadata = {}, .tensors = {}};
  const auto add = [&](const fs::path& file, std::vector<StoredTensor> tensors) {
    for (StoredTensor& tensor : tensors) result.tensors.push_back({file, std::move(tensor)});
  };
  const fs::path ending = result.where.extension();
  if (ending == ".gguf") {
    GgufHeader header = read_gguf_header(result.where);
    result.format = "GGUF version " + std::to_string(header.version);
    result.metadata = std::move(header.metadata);
    add(result.where, std::move(header.tensors));
  } else if (ending == ".json") {
    const WeightMap map = read_weight_map(result.where);
    const std::vector<std::string> shards = shards_of(map);
    result.format += " in " + std::to_string(shards.size()) + " shards";
    result.tensors = list_shards(result.where, shards, map);
  } else {
    add(result.where, list_safetensors(result.where));
  }
  return result;
}

Tensor read_weight(const ListedWeights::Listed& listed) {
  const Reader file(listed.file);
  return listed.file.extension() == ".gguf" ? read_gguf_tensor(file, listed.tensor)
                                            : read_safetensors_tensor(file, listed.tensor, listed.file.string());
}

void read_block_rows(const ListedWeights::Listed& listed,
                     const std::function<void(std::int64_t, std::span<const std::uint8_t>)>& take) {
  read_gguf_rows(Reader(listed.file), listed.tensor, take);
}

}  // namespace polyhead::io
