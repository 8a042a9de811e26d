// What the families that descend from Llama have in common.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "io/json.h"
#include "model/config.h"
#include "model/families.h"

namespace polyhead::model {

// Sizes by the keys of Llama's config.json, and tied embeddings; rotary settings, biases and windows are not read.
Config read_llama_sizes(const io::Json& json, const std::string& where, const std::set<std::string>& tensors);
// The same, with rotary settings; expects SwiGLU.
Config read_llama_like(const io::Json& json, const std::string& where, const std::set<std::string>& tensors);

// The same from GGUF's keys, which begin with the architecture's name.
Config read_llama_like_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors,
                            const std::string& name);
// Llama's tensors in GGUF, for architectures whose rotary positions pair the halves of a head.
Family half_gguf_family(const std::string& name, decltype(Family::read_config) read_config);

// A family whose heads have norms of q and k, given the names of their weights, which may be stored as w - 1
// (plus_one).
Family with_head_norms(Family family, const std::string& q, const std::string& k, bool plus_one = false);

// "rope_scaling", which newer files call "rope_parameters". It may also give the base and the share of columns that are
// rotated, which is otherwise `share`.
void read_rotary(const io::Json& json, const std::string& where, double share, Config& config);

// The window of every layer: as "layer_types" says or, without such a list, where `slides` is true.
void read_windows(const io::Json& json, const std::string& where, std::int64_t window, Config& config,
                  const std::function<bool(std::int64_t layer)>& slides);
// Qwen's windows, which are off unless the file turns them on.
void read_qwen_windows(const io::Json& json, const std::string& where, Config& config);

}  // namespace polyhead::model
