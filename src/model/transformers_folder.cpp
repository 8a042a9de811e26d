#include "model/transformers_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "io/file.h"
#include "io/json.h"
#include "io/weights.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "model/gguf_for_transformers.h"
#include "text/tokenizer.h"

namespace polyhead::model {
namespace {

constexpr std::size_t kMostConfig = std::size_t{1} << 24, kMostCompanion = std::size_t{1} << 28;

// Files for the tokenizer and for generation, as far as there are any.
constexpr std::array kCompanions{"tokenizer.json",
                                 "tokenizer_config.json",
                                 "tokenizer.model",
                                 "vocab.json",
                                 "merges.txt",
                                 "added_tokens.json",
                                 "chat_template.jinja",
                                 "special_tokens_map.json",
                                 "generation_config.json"};

[[noreturn]] void refuse(const std::filesystem::path& model, const std::string& what) {
  throw Error(ErrorCode::input, "prune", model.string() + ": " + what);
}

// Heads or key/value heads in the new order: the old number, or none for one of zeros.
using Slots = std::vector<std::optional<std::int64_t>>;

// The key/value heads of a layer that are still read, filled up to `kept`, and the heads that read them.
struct LayerSlots {
  Slots heads, kv_heads;

  LayerSlots(const LayerHeads& layer, std::size_t number, const std::vector<HeadId>& gone) : size_(readers(layer)) {
    for (std::int64_t g = 0; g < layer.kv_heads; ++g) {
      Slots group;
      for (std::int64_t h = g * size_; h < (g + 1) * size_; ++h) {
        const bool stays = std::find(gone.begin(), gone.end(), HeadId{number, h}) == gone.end();
        group.push_back(stays ? std::optional(h) : std::nullopt);
      }
      if (std::none_of(group.begin(), group.end(), [](const auto& head) { return head.has_value(); })) continue;
      kv_heads.push_back(g);
      heads.insert(heads.end(), group.begin(), group.end());
    }
  }
  void fill_up_to(std::size_t kept) {
    kv_heads.resize(kept);
    heads.resize(kept * static_cast<std::size_t>(size_));
  }

  static std::int64_t readers(const LayerHeads& layer) { return layer.heads / layer.kv_heads; }

 private:
  std::int64_t size_;
};

std::vector<LayerSlots> slots_of(const Config& config, const std::vector<HeadId>& gone) {
  std::vector<LayerSlots> layers;
  std::size_t kept = 1;  // transformers has no layers without heads
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    layers.emplace_back(config.layers[layer], layer, gone);
    kept = std::max(kept, layers.back().kv_heads.size());
  }
  for (LayerSlots& layer : layers) layer.fill_up_to(kept);
  return layers;
}

// Pieces of `bytes` each: piece n of `to` is piece slots[n] of `from`, or stays 0.
void copy_slots(const std::byte* from, const Slots& slots, std::int64_t bytes, std::byte* to) {
  for (const std::optional<std::int64_t>& slot : slots) {
    if (slot) std::copy_n(from + *slot * bytes, bytes, to);
    to += bytes;
  }
}

// q_proj, k_proj, v_proj [heads*D,C] or their biases [heads*D]: rows by slots.
Tensor rows_by(const Tensor& from, const Slots& slots, std::int64_t head_dim) {
  Dims shape = from.shape();
  const auto row = static_cast<std::int64_t>(size_of(from.dtype())) * (shape.rank() == 2 ? shape[1] : 1);
  shape[0] = std::ssize(slots) * head_dim;
  Tensor to = Tensor::zeros(shape, from.dtype());
  copy_slots(static_cast<const std::byte*>(from.view().data()), slots, head_dim * row,
             static_cast<std::byte*>(to.view().data()));
  return to;
}

// o_proj [C,heads*D]: columns by slots.
Tensor columns_by(const Tensor& from, const Slots& slots, std::int64_t head_dim) {
  const std::int64_t C = from.shape()[0], columns = std::ssize(slots) * head_dim;
  const auto size = static_cast<std::int64_t>(size_of(from.dtype()));
  Tensor to = Tensor::zeros({C, columns}, from.dtype());
  for (std::int64_t c = 0; c < C; ++c) {
    copy_slots(static_cast<const std::byte*>(from.view().data()) + c * from.shape()[1] * size, slots, head_dim * size,
               static_cast<std::byte*>(to.view().data()) + c * columns * size);
  }
  return to;
}

// "model.layers.3.self_attn.q_proj.weight" is q_proj of layer 3.
struct Projection {
  std::size_t layer = 0;
  std::string part;
};
std::optional<Projection> projection_of(const std::string& name) {
  constexpr std::string_view kLayers = "layers.", kAttention = ".self_attn.";
  const std::size_t layers = name.find(kLayers), attention = name.find(kAttention);
  if (layers == name.npos || attention == name.npos) return std::nullopt;
  Projection found;
  const char *begin = name.data() + layers + kLayers.size(), *end = name.data() + attention;
  if (std::from_chars(begin, end, found.layer).ptr != end) return std::nullopt;
  const std::string rest = name.substr(attention + kAttention.size());
  found.part = rest.substr(0, rest.find('.'));
  return found.part.ends_with("_proj") ? std::optional(found) : std::nullopt;
}

Tensor without_heads(Tensor tensor, const Projection& projection, const LayerSlots& slots, std::int64_t head_dim) {
  if (projection.part == "q_proj") return rows_by(tensor, slots.heads, head_dim);
  if (projection.part == "k_proj" || projection.part == "v_proj") return rows_by(tensor, slots.kv_heads, head_dim);
  return tensor.shape().rank() == 2 ? columns_by(tensor, slots.heads, head_dim) : std::move(tensor);
}

TransformersFolder read_folder(const std::filesystem::path& from, const io::ListedWeights& weights) {
  const std::string where = (from / kConfigFile).string();
  TransformersFolder folder{io::parse_json(io::read_file(where, kMostConfig), where), {}, {}};
  for (const auto& listed : weights.tensors) folder.tensors.emplace_back(listed.tensor.name, io::read_weight(listed));
  for (const char* name : kCompanions) {
    if (io::is_there(from / name)) folder.companions.emplace_back(name, io::read_file(from / name, kMostCompanion));
  }
  return folder;
}

TransformersFolder folder_of_gguf(const io::ListedWeights& weights, const Transformer& whole) {
  TokenizerFiles tokenizer = tokenizer_files(weights.metadata, weights.where.string());
  TransformersFolder folder{llama_config_json(whole.config(), weights.metadata), llama_tensors(whole),
                            std::move(tokenizer.files)};
  if (!tokenizer.missing.empty()) folder.missing = "the tokenizer was not written: " + tokenizer.missing;
  return folder;
}

}  // namespace

void expect_for_transformers(const std::filesystem::path& model) {
  if (is_own(model)) refuse(model, "expected a model that transformers knows, found one in polyhead's own format");
  const io::ListedWeights weights = io::list_weights(model);
  if (!weights.metadata.is_null()) return expect_llama(weights);
  const auto apart = [](const auto& listed) { return projection_of(listed.tensor.name).has_value(); };
  if (std::any_of(weights.tensors.begin(), weights.tensors.end(), apart)) return;
  refuse(model,
         "in transformers the head dim of this family is its width by its number of heads, so no head can leave");
}

TransformersFolder for_transformers(const std::filesystem::path& from, const Transformer& whole,
                                    const std::vector<HeadId>& gone) {
  const io::ListedWeights weights = io::list_weights(from);
  TransformersFolder made = weights.metadata.is_null() ? read_folder(from, weights) : folder_of_gguf(weights, whole);
  const Config& config = whole.config();
  const std::vector<LayerSlots> slots = slots_of(config, gone);
  made.config["num_attention_heads"] = slots[0].heads.size();
  made.config["num_key_value_heads"] = slots[0].kv_heads.size();
  made.config["head_dim"] = config.head_dim;
  for (auto& [name, tensor] : made.tensors) {
    const std::optional<Projection> projection = projection_of(name);
    if (!projection || projection->layer >= slots.size()) continue;
    tensor = without_heads(std::move(tensor), *projection, slots[projection->layer], config.head_dim);
  }
  return made;
}

void save(const TransformersFolder& made, const std::filesystem::path& folder) {
  std::vector<io::NamedTensor> named;
  for (const auto& [name, tensor] : made.tensors) named.push_back({name, tensor});
  io::sweep_temporaries(folder);
  std::filesystem::remove(folder / text::kTokenizerGguf);
  for (const auto& [name, text] : made.companions) {
    io::write_atomically(folder / name, [&](io::Writer& writer) { writer.write(text); });
  }
  io::write_safetensors(folder / kWeightsFile, named, {{"format", "pt"}});
  io::write_atomically(folder / kConfigFile, [&](io::Writer& writer) { writer.write(made.config.dump(2) + "\n"); });
}

}  // namespace polyhead::model
